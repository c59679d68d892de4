"""One compiled chat template: rendering, and the variables it reads.

PERF: Jinja is imported with the first template, not when the server starts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mlxctl.formats.adapters.templates.probe_time import ProbesTooSlow
from mlxctl.formats.adapters.templates.tool_schemas import ShownTypes, plain_tool
from mlxctl.formats.adapters.templates.type_probes import (
    PROBE_ARGUMENT,
    PROBE_NAME,
    find_shown_types,
    probe_tool,
    shows_whole_schemas,
)
from mlxctl.ir import ModelFacts
from mlxctl.ir.errors import BrokenModel, InvalidRequest

_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_TEXT = "probe content"
_ROLES: dict[str, list["TemplateMessage"]] = {
    "user": [],
    "assistant": [{"role": "user", "content": "probe question"}],
    "system": [],
    "tool": [{"role": "user", "content": "probe question"}, {"role": "assistant", "content": "probe reply"}],
}

_TOOLS_VARIABLES = ("xml_tools", "functions")
# Templates add this variable to text: it is a JSON list of functions.
_TEXT_VARIABLE = "functions"

TemplateMessage = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInputs:
    """How a template takes its variables.

    Messages of `listed_roles` have a list of parts instead of a string. `tools_variable` is the variable of
    the tool definitions: `functions` is JSON text; others are None without tools, or an empty list where the
    template does not take None. With `wants_descriptions`, every argument of a tool needs a description, and
    every tool a list of required arguments; with `wants_value_types`, every object the type of its values.
    """

    listed_roles: frozenset[str] = frozenset()
    tools_variable: str = "tools"
    takes_no_tools: bool = True
    unwraps_tools: bool = False
    shown_types: ShownTypes | None = None
    wants_value_types: bool = False

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | str | None:
        """Return the tool definitions as the template takes them."""
        definitions = list(tools)
        if self.shown_types is not None:
            definitions = [plain_tool(tool, self.shown_types) for tool in definitions]
        if self.wants_value_types:
            definitions = [_with_value_types(tool) for tool in definitions]
        if self.unwraps_tools or self.tools_variable == _TEXT_VARIABLE:
            definitions = [tool["function"] for tool in definitions]
        if self.tools_variable == _TEXT_VARIABLE:
            return json.dumps(definitions, ensure_ascii=False, indent=4)
        return definitions or (None if self.takes_no_tools else [])

    def constants(self) -> dict[str, str]:
        """Return variables that templates with `functions` need.

        `datetime` is the day without the time, so that prompts share their prefix.
        """
        if self.tools_variable != _TEXT_VARIABLE:
            return {}
        return {"datetime": datetime.now().astimezone().date().isoformat()}

    def messages(self, messages: Sequence[TemplateMessage]) -> Sequence[TemplateMessage]:
        """Return the messages with their content as the template takes it."""
        if not self.listed_roles:
            return messages
        return [
            {**message, "content": [{"type": "text", "text": message["content"]}]}
            if message["role"] in self.listed_roles and isinstance(message["content"], str)
            else message
            for message in messages
        ]


class ChatTemplate:
    """A model's chat template, compiled once; rendering is thread-safe.

    Raises BrokenModel when it cannot be compiled.
    """

    def __init__(self, facts: ModelFacts, source: str) -> None:
        import jinja2
        from jinja2 import meta

        from mlxctl.formats.adapters.templates.environment import chat_template_environment, counted_steps

        environment = chat_template_environment()
        try:
            self.variables = frozenset(meta.find_undeclared_variables(environment.parse(source)))
            # Compiling evaluates the constant parts.
            with counted_steps():
                self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            reason = error.message if isinstance(error, jinja2.TemplateError) else error
            line = f" in line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise BrokenModel(
                facts.path, f"the chat template of {facts.path.name!r} is broken{line}: {reason}"
            ) from error
        self.source = source
        self._path, self._model = facts.path, facts.path.name
        self._special_tokens = special_token_texts(facts.tokenizer_config)
        self._inputs = TemplateInputs()
        self._inputs = self._find_inputs()

    def render(
        self,
        messages: Sequence[TemplateMessage],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a conversation to the text of the prompt.

        Tools that the template cannot render as they are get plain schemas. Raises InvalidRequest with the
        template's message when the template rejects it, and BrokenModel inside `limited_probes`.
        """
        from mlxctl.formats.adapters.templates.sizes import TemplateTooLong

        variables = {
            **self._special_tokens,
            **self._inputs.constants(),
            **(options or {}),
            "messages": self._inputs.messages(messages),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        name = self._inputs.tools_variable
        try:
            return self._rendered({**variables, name: self._inputs.tools(tools)})
        except InvalidRequest as error:
            if not tools or self._inputs.shown_types or isinstance(error.__cause__, TemplateTooLong):
                raise
            plain = replace(self._inputs, shown_types=ShownTypes())
            return self._rendered({**variables, name: plain.tools(tools)})

    def _rendered(self, variables: dict[str, Any]) -> str:
        from mlxctl.formats.adapters.templates.environment import TemplateRejection, counted_steps

        try:
            with counted_steps():
                return self._join(variables)
        except TemplateRejection as error:
            raise InvalidRequest(
                f"the chat template of {self._model!r} refuses this: {error}", param="messages"
            ) from error
        except ProbesTooSlow as error:
            message = f"the chat template of {self._model!r} cannot be used: {error}"
            raise BrokenModel(self._path, message) from error
        except InvalidRequest:
            raise
        # A template is foreign code, which may raise anything.
        except Exception as error:
            message = f"the chat template of {self._model!r} cannot render this conversation: {error}"
            raise InvalidRequest(message, param="messages") from error

    def _find_inputs(self) -> "TemplateInputs":
        """Find how the template takes texts and tools.

        Renders a few messages.
        """
        names = (name for name in _TOOLS_VARIABLES if name in self.variables)
        variable = "tools" if "tools" in self.variables else next(names, "tools")
        inputs = TemplateInputs(tools_variable=variable)
        user = {"role": "user", "content": _TEXT}
        with_empty_list = replace(inputs, takes_no_tools=False)
        if not self._shows([user], inputs) and self._shows([user], with_empty_list):
            inputs = with_empty_list
        for role, others in _ROLES.items():
            messages = [*others, {"role": role, "content": f"{role} {_TEXT}"}]
            listed = replace(inputs, listed_roles=inputs.listed_roles | {role})
            if not self._shows(messages, inputs) and self._shows(messages, listed):
                inputs = listed
        return self._with_shown_types(inputs) if variable in self.variables else inputs

    def _with_shown_types(self, inputs: "TemplateInputs") -> "TemplateInputs":
        """Find how the template takes the schemas of tools."""

        def rendering(inputs: "TemplateInputs", tool: Mapping[str, Any]) -> str:
            self._inputs = inputs
            try:
                return self.render([{"role": "user", "content": _TEXT}], tools=[tool])
            except InvalidRequest:
                return ""

        unwrapped = replace(inputs, unwraps_tools=True)
        if not rendering(inputs, probe_tool(PROBE_ARGUMENT)) and PROBE_NAME in rendering(
            unwrapped, probe_tool(PROBE_ARGUMENT)
        ):
            inputs = unwrapped
        if shows_whole_schemas(partial(rendering, inputs)):
            return inputs
        plain = replace(inputs, shown_types=ShownTypes())
        completed = replace(plain, wants_value_types=True)
        an_object = probe_tool({"type": "object"})
        if not rendering(plain, an_object) and rendering(completed, an_object):
            plain = completed
        return replace(plain, shown_types=find_shown_types(partial(rendering, plain)))

    def _shows(self, messages: Sequence[TemplateMessage], inputs: "TemplateInputs") -> bool:
        self._inputs = inputs
        try:
            return messages[-1]["content"] in self.render(messages)
        except InvalidRequest:
            return False

    def _join(self, variables: dict[str, Any]) -> str:
        from mlxctl.formats.adapters.templates.environment import MAX_CHARS

        pieces: list[str] = []
        num_chars = 0
        for piece in self._template.generate(variables):
            pieces.append(piece)
            num_chars += len(piece)
            if num_chars > MAX_CHARS:
                raise InvalidRequest(
                    f"the rendered prompt is longer than {MAX_CHARS} characters", param="messages"
                )
        return _encodable("".join(pieces))


def _encodable(text: str) -> str:
    """Return a text with U+FFFD for halves of surrogate pairs.

    Arguments of calls may have some, as escapes.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _with_value_types(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the type of their values to a plain tool's arguments."""
    function = tool["function"]
    parameters = function["parameters"]
    properties = {name: _with_value_type(schema) for name, schema in parameters["properties"].items()}
    return {**tool, "function": {**function, "parameters": {**parameters, "properties": properties}}}


def _with_value_type(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the type of an object's values where it has none: any."""
    if schema["type"] == "array" and "items" in schema:
        return {**schema, "items": _with_value_type(schema["items"])}
    if schema["type"] != "object":
        return schema
    values = schema.get("additionalProperties")
    return {**schema, "additionalProperties": _with_value_type(values) if values else {"type": None}}


def special_token_texts(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens of tokenizer_config.json by their names.

    The file may hold each as a string or as an object with `content`.
    """
    texts: dict[str, str] = {}
    for name in _TOKEN_NAMES:
        value = tokenizer_config.get(name)
        text = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(text, str):
            texts[name] = text
    return texts
