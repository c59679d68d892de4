"""A digest of everything that decides a model's behavior.

Independent of name and directory. It covers all small files, and of the weights the header and a sample from
the middle of every tensor: hashing 100 GB would take longer than loading the model, and training changes
every part of a tensor.
"""

import hashlib
import json
import os
from pathlib import Path

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.names import display_name
from mlxctl.library.safetensors_headers import MAX_HEADER_BYTES, read_header

_SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "tokens.json",
    "tokens.txt",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/tool_use.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "speech_tokenizer/config.json",
)
# Modules of an embedding model, each in a separate folder.
_MODULES = "[0-9]*_*"
# The codec and the voices of a speech model.
_SPEECH_FOLDERS = ("speech_tokenizer", "voices", "embeddings", "voice_embedding")
_LENGTH_BYTES = 8
_SAMPLE_BYTES = 256


def fingerprint(path: Path) -> str:
    """Return the digest as 64 hexadecimal digits.

    Raises BrokenModel when a weight file is malformed or cannot be read. A small file that cannot be read
    decides nothing.
    """
    digest = hashlib.sha256()
    try:
        for name in _SMALL_FILES:
            if os.access(path / name, os.R_OK) and (path / name).is_file():
                _add(digest, name.encode(), (path / name).read_bytes())
        for file in filter(Path.is_file, sorted(path.glob(f"{_MODULES}/config.json"))):
            _add(digest, str(file.relative_to(path)).encode(), file.read_bytes())
        patterns = ("*", f"{_MODULES}/*", *(f"{folder}/*" for folder in _SPEECH_FOLDERS))
        files = [file for pattern in patterns for file in path.glob(f"{pattern}.safetensors")]
        for file in sorted(files):
            read_header(file)
            _add(digest, str(file.relative_to(path)).encode(), *_weight_samples(file))
    except OSError as error:
        raise BrokenModel(path, f"model {display_name(path)!r} cannot be read: {error}") from error
    return digest.hexdigest()


def _weight_samples(file: Path) -> list[bytes]:
    """Yield size, header and a sample of every tensor, in file order."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        assert length <= MAX_HEADER_BYTES, "the header was checked"
        header = stream.read(length)
        entries = (entry for name, entry in json.loads(header).items() if name != "__metadata__")
        middles = sorted((start + end) // 2 for start, end in (entry["data_offsets"] for entry in entries))
        begin = _LENGTH_BYTES + length
        samples = [os.pread(stream.fileno(), _SAMPLE_BYTES, begin + middle) for middle in middles]
    return [str(file.stat().st_size).encode(), header, b"".join(samples)]


def _add(digest: "hashlib._Hash", *pieces: bytes) -> None:
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
