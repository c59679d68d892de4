"""Tool calls of MiniMax M3: trees of marked tags.

Each argument is a separate tag, and a mark precedes every tag. With `M` for the mark: `M<tool_call>`, in it
`M<invoke name="f">M<a>1M</a>M<list>M<item>2M</item>M</list>M</invoke>`. Models may forget the outer tag.
"""

import re
from typing import Any

from mlxctl.formats.parsers.argument_values import value_as_json
from mlxctl.formats.parsers.call_tags import CallTags
from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_value import json_text, parse_json
from mlxctl.formats.parsers.schemas import Kinds, SchemaNode
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.ir import TagNotation

_MARK = "]<]minimax[>["
_OPENER, _CLOSER, _INVOKE = f"{_MARK}<tool_call>", f"{_MARK}</tool_call>", f"{_MARK}<invoke name="
_TAG = re.compile(rf"{re.escape(_MARK)}<(?P<end>/?)(?P<name>[^<>\s]+)>")
_MAX_DEPTH = 32
_TEXT_KEY = "$text"
_EMPTY: dict[Kinds, Any] = {frozenset({"array"}): [], frozenset({"object"}): {}}


def _read_tree(text: str, schema: SchemaNode) -> str:
    """Return the JSON text of a value: an object, array or scalar."""
    tree, _ = _read_node(text, 0, "", schema, _MAX_DEPTH)
    return json_text(tree) or value_as_json(text, schema.kinds)


def _read_node(text: str, at: int, end_name: str, schema: SchemaNode, depth: int) -> tuple[Any, int]:
    """Parse from `at` to the tag that closes `end_name`.

    Returns the value and where it ended.
    """
    members: list[tuple[str, Any]] = []
    is_array = schema.kinds is not None and "array" in schema.kinds
    begin, between = at, ""
    while (tag := _TAG.search(text, at)) is not None and depth:
        between += text[at : tag.start()]
        if tag["end"]:
            if tag["name"] == end_name:
                return _value(members, text[begin : tag.start()], between, schema), tag.end()
            at = tag.end()
            continue
        inner = schema.item() if is_array else schema.member(tag["name"])
        value, at = _read_node(text, tag.end(), tag["name"], inner, depth - 1)
        members.append((tag["name"], value))
    return _value(members, text[begin:], between + text[at:], schema), len(text)


def _value(members: list[tuple[str, Any]], text: str, between: str, schema: SchemaNode) -> Any:
    """Return the value of a node.

    Text `between` its members becomes one of them.
    """
    names = [name for name, _ in members]
    if not members and not text and schema.kinds in _EMPTY:
        return _EMPTY[schema.kinds]
    if not members:
        return parse_json(value_as_json(text, schema.kinds))
    if (schema.kinds is not None and "array" in schema.kinds) or set(names) == {"item"}:
        return [value for _, value in members]
    tree: dict[str, Any] = {}
    for name, value in members:
        if names.count(name) > 1:
            tree.setdefault(name, []).append(value)
        else:
            tree[name] = value
    if between.strip():
        key = _TEXT_KEY
        while key in tree:
            key = f"${key}"
        tree[key] = between
    return tree


_TAGS = CallTags(
    call_opener=_INVOKE,
    name_ends=">",
    call_closer=f"{_MARK}</invoke>",
    key_opener=f"{_MARK}<",
    key_end=">",
    value_closer=f"{_MARK}</{{name}}>",
    value_ends=(f"{_MARK}</invoke>",),
    block_closers=(_CLOSER,),
    read_value=_read_tree,
)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools, is_named=opening.marker == _INVOKE)


def _force_call(name: str | None) -> str:
    return f'{_OPENER}\n{_INVOKE}"' if name is None else f'{_OPENER}\n{_INVOKE}"{name}">'


TOOLS = ToolParser(
    id="minimax_m3",
    opener=_OPENER,
    other_openers=(_INVOKE,),
    closer=_CLOSER,
    open_body=_open_body,
    inner_markers=(_MARK,),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='">',
            call_end=f"{_MARK}</invoke>\n{_CLOSER}",
            call_separator="\n",
            block=(f"{_OPENER}\n", f"\n{_CLOSER}"),
            notation=TagNotation(
                begin=f"{_MARK}<{{name}}>", end=f"{_MARK}</{{name}}>", ends=(), head=_INVOKE, mark=_MARK
            ),
        ),
    ),
)
