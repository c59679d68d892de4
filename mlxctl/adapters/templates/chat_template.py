"""One compiled chat template: rendering, and the variables it reads.

PERF: Jinja is imported with the first template, not when the server starts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mlxctl.adapters.templates.probe_time import ProbesTooSlow
from mlxctl.errors import BrokenModel, InvalidRequest
from mlxctl.ir import ModelFacts

_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_TEXT = "probe content"
_ROLES: dict[str, list["TemplateMessage"]] = {
    "user": [],
    "assistant": [{"role": "user", "content": "probe question"}],
    "system": [],
    "tool": [{"role": "user", "content": "probe question"}, {"role": "assistant", "content": "probe reply"}],
}


def _tool_of(kind: str) -> dict[str, Any]:
    """Return a tool with one argument of a JSON type."""
    parameters = {"type": "object", "properties": {"subject": {"type": kind}}}
    return {
        "type": "function",
        "function": {"name": "probe", "description": "A tool.", "parameters": parameters},
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
    wants_descriptions: bool = False
    wants_value_types: bool = False

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | str | None:
        """Return the tool definitions as the template takes them."""
        definitions = list(tools)
        if self.wants_descriptions:
            definitions = [_with_arguments(tool, _with_description) for tool in definitions]
        if self.wants_value_types:
            definitions = [_with_arguments(tool, _with_value_type) for tool in definitions]
        if self.tools_variable == _TEXT_VARIABLE:
            return json.dumps([tool["function"] for tool in definitions], ensure_ascii=False, indent=4)
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

        from mlxctl.adapters.templates.environment import chat_template_environment, counted_steps

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

        Raises InvalidRequest with the template's message when the template rejects it, and BrokenModel inside
        `limited_probes`.
        """
        from mlxctl.adapters.templates.environment import TemplateRejection, counted_steps

        variables = {
            **self._special_tokens,
            **self._inputs.constants(),
            **(options or {}),
            "messages": self._inputs.messages(messages),
            self._inputs.tools_variable: self._inputs.tools(tools),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
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
        inputs = self._first_that_shows(inputs, replace(inputs, wants_descriptions=True), kind="string")
        return self._first_that_shows(inputs, replace(inputs, wants_value_types=True), kind="object")

    def _first_that_shows(
        self, inputs: "TemplateInputs", completed: "TemplateInputs", *, kind: str
    ) -> "TemplateInputs":
        """Return `completed` if only these inputs render an argument of `kind`."""
        user, tools = {"role": "user", "content": _TEXT}, (_tool_of(kind),)
        is_needed = not self._shows([user], inputs, tools) and self._shows([user], completed, tools)
        return completed if is_needed else inputs

    def _shows(
        self,
        messages: Sequence[TemplateMessage],
        inputs: "TemplateInputs",
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        self._inputs = inputs
        try:
            return messages[-1]["content"] in self.render(messages, tools=tools)
        except InvalidRequest:
            return False

    def _join(self, variables: dict[str, Any]) -> str:
        from mlxctl.adapters.templates.environment import MAX_CHARS

        pieces: list[str] = []
        num_chars = 0
        for piece in self._template.generate(variables):
            pieces.append(piece)
            num_chars += len(piece)
            if num_chars > MAX_CHARS:
                raise InvalidRequest(
                    f"the rendered prompt is longer than {MAX_CHARS} characters", param="messages"
                )
        return "".join(pieces)


def _with_arguments(
    tool: Mapping[str, Any], complete: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Complete the schemas of a tool's arguments, and its required ones."""
    function = tool["function"]
    parameters = function["parameters"]
    properties = parameters.get("properties")
    completed = {
        name: complete(schema) if isinstance(schema, Mapping) else schema
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
    }
    return {
        **tool,
        "function": {**function, "parameters": {"required": [], **parameters, "properties": completed}},
    }


def _with_description(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add an empty description to an argument that has none."""
    return {"description": "", **schema}


def _with_value_type(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the type of an object's values where it has none: any.

    Members that the object declares are shown in its description.
    """
    if schema.get("type") != "object":
        return schema
    values = schema.get("additionalProperties")
    members = schema.get("properties")
    value_type = _with_value_type(values) if isinstance(values, Mapping) else {"type": None}
    completed = {**schema, "additionalProperties": value_type}
    if members:
        shown = f"{schema.get('description', '')} {json.dumps(members, ensure_ascii=False)}"
        completed["description"] = shown.strip()
    return completed


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
