"""From a request to the text of its prompt: messages, tools on offer, a forced call, thinking on or off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.adapters.chat_template import ChatTemplate
from mlxctl.adapters.conversation import template_messages, template_tools
from mlxctl.adapters.reshaping import reshape
from mlxctl.adapters.shape import TemplateShape
from mlxctl.errors import InvalidRequest
from mlxctl.ir import GenerationRequest, ToolSpec
from mlxctl.parsers import ThinkingParser, ToolParser

_RESERVED_OPTIONS = frozenset({"messages", "tools", "documents", "add_generation_prompt", "tokenize", "chat_template"})
_THINKING_SWITCHES = ("enable_thinking", "thinking")
_EFFORTS_WITHOUT_THINKING = ("none", "minimal")
_NO_TOOLS = "this model cannot call tools: its chat template has no place for them, or writes calls in a format that is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text of a prompt; `tail` is the part of it that opens what the model continues, from its marker on.

    `opening` is text that will most likely come next: should the tokenizer glue it to the end, the prompt may go on into it.
    """

    text: str
    tail: str = ""
    opening: str = ""


class PromptWriter:
    """Writes prompts for one model.

    Thinking: what the request says wins over the template's own option, which wins over an effort; unsaid, the template decides.
    Off is done by the template's switch; a template without one gets an empty thinking block put behind it, or the block that it
    opened closed again. On is the switch, or else the model's habit. A model that does not think ignores both.
    """

    def __init__(self, template: ChatTemplate, shape: TemplateShape, tools: ToolParser, thinking: ThinkingParser) -> None:
        self._template = template
        self._shape = shape
        self._tools = tools
        self._thinking = thinking
        self._switch = next((name for name in _THINKING_SWITCHES if name in template.variables), None)
        self.supports_tools = shape.takes_tools and bool(tools.opener)
        self.supports_thinking = bool(thinking.opener) and (
            self._switch is not None or thinking.opener in template.source or thinking.closer in template.source
        )
        self.can_force_tools = self.supports_tools and tools.forced_prefix(None) is not None

    def write(self, request: GenerationRequest) -> Prompt:
        """Write the prompt; raises InvalidRequest for what this model cannot do."""
        tools = self._offered_tools(request)
        is_forced = request.tool_choice.is_forced
        wants_thinking = False if is_forced else self._wants_thinking(request)
        text = self._template.render(
            reshape(template_messages(request.messages), self._shape),
            tools=template_tools(tools),
            options=self._options(request, wants_thinking),
        )
        tail = self._opened_thinking(text)
        if wants_thinking is False and self.supports_thinking:
            text, tail = text + self._without_thinking(text, tail), ""
        if not is_forced:
            return Prompt(text=text, tail=tail)
        prefix = self._tools.forced_prefix(request.tool_choice.name)
        assert prefix is not None
        takes_arguments = any(tool.name == request.tool_choice.name and tool.parameters.get("properties") for tool in tools)
        return Prompt(text=text + prefix, tail=prefix, opening=self._tools.arguments_opening if takes_arguments else "")

    def _offered_tools(self, request: GenerationRequest) -> tuple[ToolSpec, ...]:
        choice = request.tool_choice
        if choice.mode == "none":
            return ()
        if request.tools and not self.supports_tools:
            raise InvalidRequest(_NO_TOOLS, param="tools")
        if choice.is_forced and not request.tools:
            raise InvalidRequest("tool_choice asks for a tool call, but no tools are offered", param="tool_choice")
        if choice.is_forced and not self.can_force_tools:
            raise InvalidRequest("this model cannot be forced to call a tool; use tool_choice auto", param="tool_choice")
        names = [tool.name for tool in request.tools]
        if choice.mode == "named" and choice.name not in names:
            raise InvalidRequest(f"tool_choice names {choice.name!r}, but the tools are {', '.join(names)}", param="tool_choice")
        return request.tools

    def _wants_thinking(self, request: GenerationRequest) -> bool | None:
        if request.thinking.enabled is not None:
            return request.thinking.enabled
        option = next((value for name in _THINKING_SWITCHES if (value := request.template_kwargs.get(name)) is not None), None)
        if option is not None:
            if not isinstance(option, bool):
                raise InvalidRequest("a thinking switch is true or false", param="chat_template_kwargs")
            return option
        effort = request.thinking.effort
        return None if effort is None else effort not in _EFFORTS_WITHOUT_THINKING

    def _options(self, request: GenerationRequest, wants_thinking: bool | None) -> Mapping[str, Any]:
        options = dict(request.template_kwargs)
        for name in sorted(_RESERVED_OPTIONS & options.keys()):
            raise InvalidRequest(f"chat_template_kwargs cannot set {name!r}", param=f"chat_template_kwargs.{name}")
        if self._switch is not None and wants_thinking is not None:
            options[self._switch] = wants_thinking
        if "reasoning_effort" in self._template.variables and request.thinking.effort is not None:
            options.setdefault("reasoning_effort", request.thinking.effort)
        return options

    def _opened_thinking(self, text: str) -> str:
        """The opened thinking that the text ends with, if it does."""
        opener = self._thinking.opener
        return text[text.rindex(opener) :] if opener and text.rstrip().endswith(opener) else ""

    def _without_thinking(self, text: str, tail: str) -> str:
        """What has to follow the prompt so that the model answers at once."""
        if tail:
            return self._thinking.closing
        if self._switch is not None or text.rstrip().endswith(self._thinking.closer):
            return ""
        return self._thinking.closed_block
