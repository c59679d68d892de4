"""Tags in an answer that no parser knows: the trace of a format that is missing here."""

import re
from collections.abc import Iterable
from functools import lru_cache

from mlxctl.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS, thinking_parser, tool_parser

# <name>, </name>, <name=value>, <name attribute="…">, <|name|>
_TAG = re.compile(r"</?[A-Za-z_][\w.:-]{0,63}(?:[ =][^<>\n]{0,200})?/?>|<[|｜][^<>|｜\s]{1,64}[|｜]>")
_NAME = re.compile(r"</?([A-Za-z_][\w.:-]*)")
# Tags that readers of bodies know without declaring them.
_INNER = frozenset({"function", "invoke", "parameter"})
_MOST = 20


def unknown_tags(transcripts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the tags in the answers that no parser knows, each once; transcripts are pairs of prompt and
    answer.

    What the prompt itself is marked up with (roles, the list of tools) is no sign of a call.
    """
    known = _known_names()
    found: dict[str, None] = {}
    for prompt, answer in transcripts:
        told = {_name(tag) for tag in _TAG.findall(prompt)}
        found |= {tag: None for tag in _TAG.findall(answer) if _name(tag) not in known | told}
    return list(found)[:_MOST]


@lru_cache(maxsize=1)
def _known_names() -> frozenset[str]:
    of_tools = (marker for parser in map(tool_parser, TOOL_PARSER_IDS) for marker in parser.markers)
    of_thinking = (
        marker for parser in map(thinking_parser, THINKING_PARSER_IDS) for marker in parser.markers
    )
    return _INNER | {_name(tag) for marker in (*of_tools, *of_thinking) for tag in _tags(marker)}


def _tags(marker: str) -> list[str]:
    # A marker may open a tag that goes on with a name, such as <function=
    return _TAG.findall(marker) or _TAG.findall(f"{marker}x>")


def _name(tag: str) -> str:
    match = _NAME.match(tag)
    return match[1] if match else tag
