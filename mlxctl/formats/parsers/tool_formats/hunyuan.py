"""Tool calls of Hunyuan's Hy3: key and value tags.

`<tool_calls>` contains `<tool_call>f<tool_sep>` with a key and a value for each argument. All tags are
tokens, which the published models write with the suffix `:opensource`. Hy4 leaves out `<tool_sep>`.
"""

from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_SUFFIXES = (":opensource", "")


def _tags(suffix: str) -> CallTags:
    key_closer = f"</arg_key{suffix}>"

    def read_key(tag: str) -> tuple[str, bool | None] | None:
        name, closer, rest = tag.partition(key_closer)
        return (name.strip(), None) if closer and name.strip() and not rest.strip() else None

    return CallTags(
        call_opener=f"<tool_call{suffix}>",
        block_opener=f"<tool_calls{suffix}>",
        name_end=f"<tool_sep{suffix}>",
        call_closer=f"</tool_call{suffix}>",
        key_opener=f"<arg_key{suffix}>",
        key_end=f"<arg_value{suffix}>",
        key_closer=key_closer,
        value_closer=f"</arg_value{suffix}>",
        block_closers=(f"</tool_calls{suffix}>",),
        read_key=read_key,
    )


_TAGS = {f"<tool_calls{suffix}>": _tags(suffix) for suffix in _SUFFIXES}
_CALLS = {tags.call_opener: tags for tags in _TAGS.values()}


def _open_body(opening: Opening) -> TaggedCallsBody:
    tags = _TAGS.get(opening.marker) or _CALLS[opening.marker]
    return TaggedCallsBody(tags, opening.tools, is_named=opening.marker in _CALLS)


def _force(suffix: str, name: str | None) -> str:
    begin = f"<tool_calls{suffix}>\n<tool_call{suffix}>"
    return begin if name is None else f"{begin}{name}<tool_sep{suffix}>\n"


def _close(suffix: str) -> Closing:
    block = f"<tool_calls{suffix}>\n", f"</tool_calls{suffix}>"
    return Closing(
        prefix_start=f"<tool_calls{suffix}>",
        prefix_end="\n",
        call_end=f"</tool_call{suffix}>\n{block[1]}",
        call_separator="",
        block=block,
        notation=TagNotation(
            begin=f"<arg_key{suffix}>{{name}}</arg_key{suffix}>\n<arg_value{suffix}>",
            end=f"</arg_value{suffix}>\n",
            ends=(f"</arg_value{suffix}>",),
            head=f"<tool_call{suffix}>",
            mark=f"</arg_value{suffix}>" if suffix else "",
        ),
    )


TOOLS = ToolParser(
    id="hunyuan",
    opener="<tool_calls:opensource>",
    other_openers=("<tool_calls>", "<tool_call:opensource>", "<tool_call>"),
    closer="</tool_calls:opensource>",
    other_closers=("</tool_calls>",),
    open_body=_open_body,
    inner_markers=tuple(
        f"<{mark}:opensource>" for mark in ("tool_sep", "arg_key", "/arg_key", "arg_value", "/arg_value")
    ),
    forced_prefix=lambda name: _force(":opensource", name),
    dialects=(lambda name: _force("", name),),
    closings=tuple(_close(suffix) for suffix in _SUFFIXES),
)
