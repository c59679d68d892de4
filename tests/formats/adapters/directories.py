"""Model directories without weights: all that an adapter reads."""

import json
import struct
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from mlxctl.formats.adapters import ModelAdapter, RequestDefaults, create_adapter
from mlxctl.formats.adapters.adapter import NO_DEFAULTS
from mlxctl.library import read_model

from .tokenizers_in_code import byte_level

QWEN_TEMPLATE = (
    Path(__file__).parents[3] / "mlxctl" / "library" / "demo" / "model" / "chat_template.jinja"
).read_text(encoding="utf-8")
PLAIN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_model(
    directory: Path,
    *,
    template: str | None = QWEN_TEMPLATE,
    tokenizer: Tokenizer | None = None,
    config: dict[str, Any] | None = None,
    generation_config: dict[str, Any] | None = None,
    tokenizer_config: dict[str, Any] | None = None,
) -> Path:
    """Write a model directory; the defaults make a small Qwen3."""
    tokenizer = tokenizer or byte_level()
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    base = {
        "model_type": "qwen3",
        "max_position_embeddings": 4096,
        "vocab_size": tokenizer.get_vocab_size() + 7,
    }
    _write(directory / "config.json", {**base, **(config or {})})
    _write(directory / "generation_config.json", generation_config or {})
    _write(directory / "tokenizer_config.json", tokenizer_config or {})
    if template is not None:
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
    # Weights without a tensor.
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    return directory


def adapter_of(directory: Path, *, request_defaults: RequestDefaults = NO_DEFAULTS) -> ModelAdapter:
    """Read the directory and create its adapter."""
    return create_adapter(read_model(directory), name="small", request_defaults=request_defaults)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
