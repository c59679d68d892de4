"""Finds the chat templates of a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxctl.formats.vision.registry import vision_family_of
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.files import read_optional_json, read_text, warn_once
from mlxctl.library.names import display_name

MAX_TEMPLATE_BYTES = 1 << 20
_TOOL_FILE = "additional_chat_templates/tool_use.jinja"


def find_chat_template(directory: Path, tokenizer_config: Mapping[str, Any], model_type: Any) -> str | None:
    """Return the template's source, or None.

    chat_template.jinja takes precedence over chat_template.json, which takes precedence over
    tokenizer_config.json, as in `transformers`. Of several named templates "default" is used, or else the
    first. Without one, it is that of the family of vision models. Raises BrokenModel if it is not text or too
    large.
    """
    # An empty file is an aborted download.
    template: Any = read_text(directory, "chat_template.jinja", limit_bytes=MAX_TEMPLATE_BYTES) or None
    if template is None:
        template = _from_json(directory, tokenizer_config)
    if template is None and (family := vision_family_of(str(model_type))):
        template = family.template
    if not isinstance(template, list | Mapping):
        return _checked(directory, template)
    named = _named(template)
    return _checked(directory, named.get("default", next(iter(named.values()), None)))


def find_tool_template(directory: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    """Return the template named "tool_use", for requests with tools, or None.

    It is in additional_chat_templates, or one of several named templates beside another. Raises BrokenModel
    as `find_chat_template` does.
    """
    template: Any = read_text(directory, _TOOL_FILE, limit_bytes=MAX_TEMPLATE_BYTES)
    if template is None and not (directory / "chat_template.jinja").is_file():
        named = _named(_from_json(directory, tokenizer_config))
        template = named.get("tool_use") if len(named) > 1 else None
    return _checked(directory, template)


def _from_json(directory: Path, tokenizer_config: Mapping[str, Any]) -> Any:
    template = read_optional_json(directory, "chat_template.json").get("chat_template")
    if template is not None and not isinstance(template, str | list | Mapping):
        warn_once(f"chat_template.json of model {display_name(directory)!r} has no template; it is ignored")
        template = None
    return tokenizer_config.get("chat_template") if template is None else template


def _named(templates: Any) -> dict[Any, Any]:
    """Return named templates by their names; empty for a single one."""
    if isinstance(templates, Mapping):
        return dict(templates)
    if not isinstance(templates, list):
        return {}
    return {entry.get("name"): entry.get("template") for entry in templates if isinstance(entry, Mapping)}


def _checked(directory: Path, template: Any) -> str | None:
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
