"""What tells one model's prefixes from all others': a changed model must never read stale keys and values."""

from hashlib import blake2b
from pathlib import Path

from mlxctl.installed import version_of
from mlxctl.ir import KVFormat
from mlxctl.models.fingerprint import fingerprint
from mlxctl.prefix_cache.packing import Packing

# Changes with the meaning of what is kept.
_RECORDS_VERSION = 2


def prefix_namespace(path: Path, packing: Packing | None, kv_format: KVFormat | None) -> bytes:
    """Return a digest that stays the same where the model is moved or renamed, and changes with anything in
    it.

    The fingerprint reads a little of every tensor, so that equal sizes and times of different weights are
    told apart; sizes and times are in it, too, so that weights edited in place are. What was packed is never
    taken for exact, nor what was computed with quantized keys and values for what was not. Raises
    BrokenModel.
    """
    home = path.resolve()
    digest = blake2b(b"%d:" % _RECORDS_VERSION + (version_of("mlx-lm") or "").encode())
    digest.update(fingerprint(home).encode())
    for file in sorted(home.glob("*.safetensors")):
        status = file.stat()
        digest.update(f"{file.name}:{status.st_size}:{status.st_mtime_ns}".encode())
    if packing is not None:
        digest.update(f"{packing.bits} bits after {packing.exact_tokens}".encode())
    if kv_format is not None:
        digest.update(f"keys and values in {kv_format.bits} bits by {kv_format.group_size}".encode())
    return digest.digest()
