"""The namespace that separates a model's cached prefixes from all others."""

from hashlib import blake2b

from mlxctl.installed import version_of
from mlxctl.ir import ModelSpec, TextGenerationTask
from mlxctl.models.fingerprint import fingerprint
from mlxctl.prefix_cache.packing import Packing

# Changes with the meaning of stored records.
_RECORDS_VERSION = 2


def prefix_namespace(spec: ModelSpec, packing: Packing | None) -> bytes:
    """Return a digest of all that keys and values depend on.

    It stays the same where the directory is moved or renamed. The fingerprint covers a sample of every
    tensor, which tells apart different weights of equal sizes and times; sizes and times cover weights edited
    in place. Packing and quantization of the cache are part of it. Raises BrokenModel.
    """
    home = spec.path.resolve()
    kv_format = spec.task.options.kv_format if isinstance(spec.task, TextGenerationTask) else None
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
