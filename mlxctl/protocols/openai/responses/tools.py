"""Tools of a response: functions and custom tools, flat or in namespaces.

The model sees a tool of a namespace as `namespace__name`; clients send and receive the two apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mlxctl.ir import ToolChoice, ToolSpec
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import check_nesting, decode_part
from mlxctl.protocols.openai.freeform import freeform_spec
from mlxctl.protocols.openai.responses import schema
from mlxctl.protocols.tool_checks import check_tool_choice, check_unique_names
from mlxctl.protocols.validation_errors import missing

_SEPARATOR = "__"
# Tools that the client runs, with separate item types in the answer.
_CLIENT_TOOLS = ("apply_patch", "computer", "computer_use_preview", "local_shell", "shell")
_TYPE_TAG = msgspec.json.Decoder(schema.TypeTag)
_FUNCTION = msgspec.json.Decoder(schema.ResponsesFunction)
_CUSTOM = msgspec.json.Decoder(schema.ResponsesCustomTool)
_NAMESPACE = msgspec.json.Decoder(schema.ResponsesNamespace)


def full_name(name: str, namespace: str | None) -> str:
    """Return the tool name that the model sees."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """An offered tool: spec, client's name, description in the response."""

    spec: ToolSpec
    name: str
    namespace: str | None
    description: dict[str, Any]
    is_freeform: bool = False


class OfferedTools:
    """Parses tools and tool choice.

    `dropped` are the types that only OpenAI can run.
    """

    def __init__(self, tools: Sequence[tuple[msgspec.Raw, str]]) -> None:
        """Parse tools, each with its path. Raises InvalidRequest."""
        self.dropped: list[str] = []
        self.offered: list[OfferedTool] = []
        self._descriptions: dict[str, str] = {}
        self._names: list[tuple[str, str]] = []
        for tool, path in tools:
            self._add(tool, path)
        check_unique_names(self._names)
        self._by_full_name = {tool.spec.name: tool for tool in self.offered}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of all tools."""
        return tuple(tool.spec for tool in self.offered)

    def called(self, name: str) -> tuple[str, str | None]:
        """Return name and namespace of a called tool.

        An unknown tool has no namespace.
        """
        tool = self._by_full_name.get(name)
        return (name, None) if tool is None else (tool.name, tool.namespace)

    def is_freeform(self, name: str) -> bool:
        """Whether the called tool is a custom tool."""
        tool = self._by_full_name.get(name)
        return tool is not None and tool.is_freeform

    def choose(
        self, choice: str | schema.ResponsesNamedTool | schema.ResponsesAllowedTools | None
    ) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
        """Return the tools that may be called, and the choice. Raises InvalidRequest."""
        specs = self.specs
        match choice:
            case schema.ResponsesNamedTool():
                chosen = ToolChoice(mode="named", name=full_name(choice.name, choice.namespace))
            case schema.ResponsesAllowedTools():
                specs = self._allowed(choice)
                chosen = ToolChoice(mode=choice.mode)
            case "none" | "required" | "auto":
                chosen = ToolChoice(mode=choice)
            case _:
                chosen = ToolChoice()
        offered = [spec.name for spec in specs]
        check_tool_choice(chosen, offered, param="tool_choice", name_param="tool_choice.name")
        return specs, chosen

    def describe(self) -> list[dict[str, Any]]:
        """Return the offered tools as the response repeats them."""
        described: list[dict[str, Any]] = []
        spaces: dict[str, list[dict[str, Any]]] = {}
        for tool in self.offered:
            if tool.namespace is None:
                described.append(tool.description)
                continue
            if tool.namespace not in spaces:
                inner = spaces[tool.namespace] = []
                description = self._descriptions[tool.namespace]
                described.append(
                    {"type": "namespace", "name": tool.namespace, "description": description, "tools": inner}
                )
            spaces[tool.namespace].append(tool.description)
        return described

    def _add(self, tool: msgspec.Raw, path: str) -> None:
        if self._type_of(tool, path) != "namespace":
            self._offer(tool, path, namespace=None)
            return
        space = decode_part(tool, _NAMESPACE, path)
        self._descriptions[space.name] = space.description or ""
        for index, inner in enumerate(space.tools):
            self._offer(inner, f"{path}.tools[{index}]", namespace=space.name)

    def _offer(self, tool: msgspec.Raw, path: str, *, namespace: str | None) -> None:
        match self._type_of(tool, path):
            case "function":
                self._take(_function(tool, path, namespace), path)
            case "custom":
                self._take(_custom(tool, path, namespace), path)
            case kind if kind in _CLIENT_TOOLS:
                raise InvalidRequest(
                    f"{path}.type {kind!r} is not supported; offer a function or custom tool instead",
                    param=f"{path}.type",
                )
            case kind:
                self.dropped.append(kind)

    def _take(self, tool: OfferedTool, path: str) -> None:
        self._names.append((tool.spec.name, f"{path}.name"))
        self.offered.append(tool)

    @staticmethod
    def _type_of(tool: msgspec.Raw, path: str) -> str:
        kind = decode_part(tool, _TYPE_TAG, path).type
        if kind is None:
            raise missing(f"{path}.type")
        return kind

    def _allowed(self, choice: schema.ResponsesAllowedTools) -> tuple[ToolSpec, ...]:
        names = set(self._allowed_names(choice))
        return tuple(spec for spec in self.specs if spec.name in names)

    def _allowed_names(self, choice: schema.ResponsesAllowedTools) -> Iterable[str]:
        for index, tool in enumerate(choice.tools):
            if tool.type not in (None, "function", "custom"):
                continue
            path = f"tool_choice.tools[{index}].name"
            if tool.name is None:
                raise missing(path)
            name = full_name(tool.name, tool.namespace)
            if name not in self._by_full_name:
                raise InvalidRequest(
                    f"{path} is {name!r}, which is not the name of an offered tool", param=path
                )
            yield name


def _function(tool: msgspec.Raw, path: str, namespace: str | None) -> OfferedTool:
    function = decode_part(tool, _FUNCTION, path)
    check_nesting(function.parameters, f"{path}.parameters")
    spec = ToolSpec(
        name=full_name(function.name, namespace),
        description=function.description or "",
        parameters=function.parameters or {},
        is_strict=bool(function.strict),
        param=f"{path}.parameters",
    )
    description: dict[str, Any] = {
        "type": "function",
        "name": function.name,
        "description": function.description or None,
        "parameters": spec.parameters,
        "strict": spec.is_strict,
    }
    return OfferedTool(spec=spec, name=function.name, namespace=namespace, description=description)


def _custom(tool: msgspec.Raw, path: str, namespace: str | None) -> OfferedTool:
    custom = decode_part(tool, _CUSTOM, path)
    grammar = custom.format if isinstance(custom.format, schema.ResponsesGrammarInput) else None
    name, param = full_name(custom.name, namespace), f"{path}.format.definition"
    spec = freeform_spec(name, description=custom.description, grammar=grammar, param=param)
    description: dict[str, Any] = {
        "type": "custom",
        "name": custom.name,
        "description": custom.description or "",
        "format": {"type": "text"},
    }
    if grammar is not None:
        description["format"] = msgspec.to_builtins(grammar)
    return OfferedTool(
        spec=spec, name=custom.name, namespace=namespace, description=description, is_freeform=True
    )
