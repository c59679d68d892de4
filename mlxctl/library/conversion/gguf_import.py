"""Imports a GGUF file: writes a model directory for mlx-lm."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from mlxctl import __version__
from mlxctl.ir.errors import ConversionFailed
from mlxctl.library.conversion.architectures import plan_model
from mlxctl.library.conversion.gguf_file import GgufFile
from mlxctl.library.conversion.gguf_parts import read_parts
from mlxctl.library.conversion.gguf_tokenizer import TokenizerFiles, convert_tokenizer
from mlxctl.library.conversion.gguf_weights import ImportedWeights, read_vector
from mlxctl.library.conversion.new_directory import check_room, new_model_directory
from mlxctl.library.conversion.weight_writer import WeightWriter

QUANTIZED_BITS: Final = (2, 3, 4, 5, 6, 8)
"""The bits that MLX quantizes to."""

_HASH_BYTES = 1 << 22
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModel:
    """A model that was imported.

    `changes` are lines on its weights by type, `notes` on what is left out.
    """

    path: Path
    num_bytes: int
    sha256: str
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def import_gguf(
    source: Path,
    target: Path,
    *,
    origin: str,
    bits: int | None = None,
    sha256: str | None = None,
    progress: Progress,
) -> ImportedModel:
    """Import a file, and the parts after it, into the directory `target`.

    With `bits` all matrices are quantized to them, otherwise as near to the file as MLX can. `origin` names
    the source for its card. `sha256` is the digest that the file must have, of parts one after the other.
    `progress` is called with the bytes that are done, and all. Raises ConversionFailed.
    """
    parts = read_parts(source)
    file = parts.whole
    with ExitStack() as stack:
        streams = [stack.enter_context(_opened(path)) for path in parts.paths]
        plan = plan_model(file, partial(read_vector, file, streams))
        tokenizer = convert_tokenizer(file)
        if tokenizer.num_tokens > plan.config["vocab_size"]:
            raise file.wrong(
                f"it has {tokenizer.num_tokens:,} tokens, and embeddings for {plan.config['vocab_size']:,}"
            )
        weights = ImportedWeights(file, plan, bits)
        num_bytes = sum(tensor.num_bytes for tensor in weights.stored())
        check_room(num_bytes)
        total = weights.num_source_bytes + sum(path.stat().st_size for path in parts.paths)
        with new_model_directory(target) as directory:
            _write_configuration(directory, plan.config | weights.config(), tokenizer)
            with WeightWriter(directory, weights.stored()) as writer:
                weights.write(streams, writer, lambda done: progress(done, total))
            digest = _digest(streams, lambda done: progress(weights.num_source_bytes + done, total))
            if sha256 is not None and digest != sha256:
                raise file.wrong(f"it is damaged: its SHA-256 is {digest}, and must be {sha256}")
            notes = list(plan.notes)
            if "chat_template" not in tokenizer.tokenizer_config:
                notes.append("the file has no chat template")
            changes = tuple(weights.changes())
            card = _card(target.name, origin, digest, file, changes, notes)
            (directory / "README.md").write_text(card, encoding="utf-8")
    return ImportedModel(path=target, num_bytes=num_bytes, sha256=digest, changes=changes, notes=tuple(notes))


def _opened(source: Path) -> BinaryIO:
    try:
        return source.open("rb")
    except OSError as error:
        raise ConversionFailed(source, f"{str(source)!r} cannot be read: {error.strerror or error}") from None


def _digest(streams: Sequence[BinaryIO], progress: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    for stream in streams:
        stream.seek(0)
        while data := stream.read(_HASH_BYTES):
            digest.update(data)
            done += len(data)
            progress(done)
    return digest.hexdigest()


def _write_configuration(directory: Path, config: dict[str, Any], tokenizer: TokenizerFiles) -> None:
    """Write all files but the weights and the card."""
    ids = {key: value for key, value in tokenizer.generation_config.items() if key.endswith("_id")}
    length = {"model_max_length": config["max_position_embeddings"]}
    _write_json(directory / "config.json", config | ids)
    _write_json(directory / "generation_config.json", tokenizer.generation_config)
    _write_json(directory / "tokenizer_config.json", tokenizer.tokenizer_config | length)
    (directory / "tokenizer.json").write_text(tokenizer.tokenizer, encoding="utf-8")


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _card(
    name: str, origin: str, digest: str, file: GgufFile, changes: tuple[str, ...], notes: list[str]
) -> str:
    """Return the content of README.md."""
    about = {
        label: value
        for label, key in (("Model", "general.name"), ("License", "general.license"))
        if isinstance(value := file.metadata.get(key), str)
    }
    lines = [
        f"# {name}",
        "",
        f"Imported by mlxctl {__version__} from `{origin}`.",
        "",
        f"- SHA-256 of the GGUF file, or of its parts one after the other: `{digest}`",
        f"- Architecture: {file.metadata['general.architecture']}",
        *(f"- {label}: {' '.join(value.split())[:200]}" for label, value in about.items()),
        "",
        "Weights, with the error of the first rows of each tensor:",
        "",
        *(f"- {change}" for change in changes),
        *(["", "Left out or missing:", "", *(f"- {note}" for note in notes)] if notes else []),
    ]
    return "\n".join(lines) + "\n"
