"""Calls as `<invoke name="f">` with `<parameter name="a">` tags.

The outer tag is the format's own.
"""

from mlxctl.formats.parsers.call_tags import CallTags, untyped_as_string
from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_INVOKE, _INVOKE_END, _PARAMETER = "<invoke name=", "</invoke>", "<parameter name="


def invoke_parser(parser_id: str, *, opener: str, closer: str, takes_json: bool = False) -> ToolParser:
    """Return the parser of a format with these outer tags.

    With `takes_json` a block may hold a JSON object or a list of them instead.
    """
    tags = CallTags(
        call_opener=_INVOKE,
        block_opener=opener,
        name_ends=">",
        call_closer=_INVOKE_END,
        key_opener=_PARAMETER,
        key_end=">",
        value_closer="</parameter>",
        value_ends=tuple(f"{space}{tag}" for space in ("\n", "") for tag in (_PARAMETER, _INVOKE_END)),
        block_closers=(closer,),
        read_value=untyped_as_string,
    )

    def open_body(opening: Opening) -> BodyReader:
        def choose(first: str) -> BodyReader:
            is_json = takes_json and first in "{["
            return JsonCallsBody(opening.tools) if is_json else TaggedCallsBody(tags, opening.tools)

        return FirstCharacterBody(choose)

    def force_call(name: str | None) -> str:
        return f'{opener}\n{_INVOKE}"' if name is None else f'{opener}\n{_INVOKE}"{name}">\n'

    return ToolParser(
        id=parser_id,
        opener=opener,
        closer=closer,
        open_body=open_body,
        forced_prefix=force_call,
        closings=(
            Closing(
                prefix_end='">\n',
                call_end=f"{_INVOKE_END}\n{closer}",
                call_separator="",
                block=(f"{opener}\n", closer),
                notation=TagNotation(
                    begin=f'{_PARAMETER}"{{name}}">',
                    end="</parameter>\n",
                    ends=("</parameter>", _INVOKE_END),
                    head=_INVOKE,
                    next_argument=f'{_PARAMETER}"',
                ),
            ),
        ),
    )
