"""Tools and tool choice of chat completions."""

from collections.abc import Iterable

from mlxctl.ir import ToolChoice, ToolSpec
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import check_nesting
from mlxctl.protocols.openai import chat_schema as schema
from mlxctl.protocols.openai.freeform import freeform_spec
from mlxctl.protocols.tool_checks import check_tool_choice, check_unique_names
from mlxctl.protocols.validation_errors import missing


def dropped_tool_types(request: schema.ChatRequest) -> tuple[str, ...]:
    """Return the types of offered tools that only OpenAI can run."""
    return tuple(tool.type for tool in request.tools or () if tool.type not in (None, "function", "custom"))


def freeform_names(request: schema.ChatRequest) -> frozenset[str]:
    """Return the names of custom tools."""
    return frozenset(
        tool.custom.name for tool in request.tools or () if tool.type == "custom" and tool.custom
    )


def tools_and_choice(request: schema.ChatRequest) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """Return the tools that may be called, and the choice. Raises InvalidRequest."""
    tools = tool_specs(request.tools or ())
    match request.tool_choice:
        case None:
            choice = ToolChoice()
        case schema.ChatNamedTool() | schema.ChatNamedCustomTool() as named:
            choice = ToolChoice(mode="named", name=_reference(named)[1])
        case schema.ChatAllowedToolsChoice(allowed_tools=allowed):
            tools = _allowed(tools, allowed)
            choice = ToolChoice(mode=allowed.mode)
        case mode:
            choice = ToolChoice(mode=mode)
    offered = [tool.name for tool in tools]
    kind = "custom" if isinstance(request.tool_choice, schema.ChatNamedCustomTool) else "function"
    check_tool_choice(choice, offered, param="tool_choice", name_param=f"tool_choice.{kind}.name")
    return tools, choice


def tool_specs(tools: Iterable[schema.ChatTool]) -> tuple[ToolSpec, ...]:
    """Translate the offered tools, without dropped ones. Raises InvalidRequest."""
    specs: list[ToolSpec] = []
    names: list[tuple[str, str]] = []
    for index, tool in enumerate(tools):
        match tool.type:
            case None | "function":
                kind, spec = "function", _function_spec(tool.function, f"tools[{index}].function")
            case "custom":
                kind, spec = "custom", _custom_spec(tool.custom, f"tools[{index}].custom")
            case _:
                continue
        names.append((spec.name, f"tools[{index}].{kind}.name"))
        specs.append(spec)
    check_unique_names(names)
    return tuple(specs)


def _function_spec(function: schema.ChatFunction | None, path: str) -> ToolSpec:
    if function is None:
        raise missing(path)
    check_nesting(function.parameters, f"{path}.parameters")
    return ToolSpec(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or {},
        is_strict=bool(function.strict),
        param=f"{path}.parameters",
    )


def _custom_spec(custom: schema.ChatCustomTool | None, path: str) -> ToolSpec:
    if custom is None:
        raise missing(path)
    grammar = custom.format.grammar if isinstance(custom.format, schema.ChatGrammarInput) else None
    param = f"{path}.format.grammar.definition"
    return freeform_spec(custom.name, description=custom.description, grammar=grammar, param=param)


def _allowed(tools: tuple[ToolSpec, ...], allowed: schema.ChatAllowedTools) -> tuple[ToolSpec, ...]:
    offered, names = {tool.name for tool in tools}, set[str]()
    for index, reference in enumerate(allowed.tools):
        kind, name = _reference(reference)
        if name not in offered:
            path = f"tool_choice.allowed_tools.tools[{index}].{kind}.name"
            raise InvalidRequest(f"{path} is {name!r}, which is not the name of an offered tool", param=path)
        names.add(name)
    return tuple(tool for tool in tools if tool.name in names)


def _reference(tool: schema.ChatNamedTool | schema.ChatNamedCustomTool) -> tuple[str, str]:
    """Return kind and name of a referenced tool."""
    if isinstance(tool, schema.ChatNamedCustomTool):
        return "custom", tool.custom.name
    return "function", tool.function.name
