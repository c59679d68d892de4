"""Tool calls of MiniCPM 5: a `<param>` tag for each argument.

`<function name="f"><param name="a">1</param></function>`, one after another without an outer tag. A value
with line breaks, `<` or `&` is a CDATA section. Since the tags are plain XML, only available tools are
called. A tokenizer with a broken decoder loses the space in a tag, or writes it as `Ġ`.
"""

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_OPENER = "<function name="
_DAMAGED_SPACES = ("", "Ġ")

_TAGS = CallTags(
    call_opener=_OPENER,
    name_ends=">",
    call_closer="</function>",
    key_opener="<param name=",
    other_key_openers=tuple(f"<param{space}name=" for space in _DAMAGED_SPACES),
    key_end=">",
    value_closer="</param>",
    value_ends=("</function>",),
    has_cdata=True,
    only_available=True,
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=True)


def _force_call(name: str | None) -> str:
    return f'{_OPENER}"' if name is None else f'{_OPENER}"{name}">'


TOOLS = ToolParser(
    id="minicpm5",
    opener=_OPENER,
    other_openers=tuple(f"<function{space}name=" for space in _DAMAGED_SPACES),
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='">',
            call_end="</function>",
            call_separator="",
            notation=TagNotation(
                begin='<param name="{name}">',
                end="</param>",
                ends=("</param>", "</function>"),
                head=_OPENER,
                sections=("<![CDATA[", "]]>"),
            ),
        ),
    ),
)
