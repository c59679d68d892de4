"""What is known of a family beside its template: the declarative facts, one value per family."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.parsers import TOOL_PARSER_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyProfile:
    """The facts of one family.

    `tool_parser_ids` are the formats in which its models may call tools; which one it is, is read off the
    template. `injected_parser_id` is the format to ask for where a template has no place for tools, "" if the
    family cannot do that. `end_tokens` end an answer in all models whose vocabulary has them.
    `thinking_switches` are template options that turn thinking on and off. `efforts` gives a caller's word
    for how hard to think in the family's words.
    """

    tool_parser_ids: tuple[str, ...] = TOOL_PARSER_IDS
    injected_parser_id: str = ""
    end_tokens: tuple[str, ...] = ()
    thinking_switches: tuple[str, ...] = ("enable_thinking", "thinking")
    efforts: Mapping[str, str] = field(default_factory=dict)
