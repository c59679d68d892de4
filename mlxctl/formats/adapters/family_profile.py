"""Facts of a model family that its template does not show."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.formats.parsers import TOOL_PARSER_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyProfile:
    """The facts of one family.

    `tool_parser_ids` are the formats in which its models may call tools; the template decides which.
    `injected_parser_id` is the format to request where a template does not support tools. `end_tokens` end
    an answer in every model whose vocabulary has them. `thinking_switches` are template variables that turn
    thinking on and off. `efforts` maps a request's reasoning effort to the family's names.
    `thinks_by_default` holds for requests that set nothing; None leaves it to the template.
    """

    tool_parser_ids: tuple[str, ...] = TOOL_PARSER_IDS
    injected_parser_id: str = "hermes_json"
    end_tokens: tuple[str, ...] = ()
    thinking_switches: tuple[str, ...] = ("enable_thinking", "thinking")
    efforts: Mapping[str, str] = field(default_factory=dict)
    thinks_by_default: bool | None = None
