"""Names of tools as models write them."""

from mlxctl.formats.parsers import extract, tool_parser
from mlxctl.ir import ToolSpec

CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>{name}<|tool_call_argument_begin|>"
    '{{"a": 1}}<|tool_call_end|><|tool_calls_section_end|>'
)


def _called(name: str, *offered: str, arguments: tuple[str, ...] = ()) -> str:
    """Return the called tool; the first of `offered` takes the arguments."""
    properties = {argument: {"type": "integer"} for argument in arguments}
    tools = (
        ToolSpec(name=offered[0], parameters={"properties": properties}),
        *(ToolSpec(name=tool, parameters={}) for tool in offered[1:]),
    )
    (call,) = extract(CALL.format(name=name), tools=tool_parser("kimi_k2"), tool_specs=tools).tool_calls
    return call.name


def test_number_in_place_of_a_name_means_the_only_tool() -> None:
    assert _called("0", "look") == "look"
    assert _called("0", "look", "listen") == "0"
    assert _called("7", "7", "look") == "7"


def test_number_in_place_of_a_name_means_the_tool_with_the_argument() -> None:
    assert _called("0", "look", "listen", arguments=("a", "b")) == "look"
    assert _called("0", "look", "listen", arguments=("b",)) == "0"


def test_namespace_before_a_name_is_dropped() -> None:
    assert _called("functions.look:3", "look", "listen") == "look"
    assert _called("functions.other:3", "look", "listen") == "other"
