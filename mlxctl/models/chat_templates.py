"""Finds the chat template of a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.errors import BrokenModel
from mlxctl.models.files import read_json_object, read_text
from mlxctl.models.names import display_name

MAX_TEMPLATE_BYTES = 1 << 20


def find_chat_template(directory: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    """Return the template's source, or None.

    chat_template.jinja takes precedence over chat_template.json, which takes precedence over
    tokenizer_config.json, as in `transformers`. Of several named templates "default" is used, or else the
    first. Raises BrokenModel if it is not text or too large.
    """
    template: Any = read_text(directory, "chat_template.jinja", limit_bytes=MAX_TEMPLATE_BYTES)
    if template is None:
        template = (read_json_object(directory, "chat_template.json") or {}).get("chat_template")
    if template is None:
        template = tokenizer_config.get("chat_template")
    if isinstance(template, list):
        template = _default_of(template)
    if template is not None and not isinstance(template, str):
        raise BrokenModel(
            directory,
            f"the chat template of model {display_name(directory)!r} must be text, not "
            f"{type(template).__name__}",
        )
    if template is not None and len(template.encode()) > MAX_TEMPLATE_BYTES:
        raise BrokenModel(
            directory,
            f"the chat template of model {display_name(directory)!r} is larger than {MAX_TEMPLATE_BYTES} "
            "bytes",
        )
    return template


def _default_of(named: list[Any]) -> Any:
    templates = {entry.get("name"): entry.get("template") for entry in named if isinstance(entry, Mapping)}
    return templates.get("default", next(iter(templates.values()), None))
