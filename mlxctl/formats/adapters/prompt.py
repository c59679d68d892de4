"""From a request to the text of its prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlxctl.formats.adapters.family_profile import FamilyProfile
from mlxctl.formats.adapters.media.audio_clips import AudioPlacement
from mlxctl.formats.adapters.media.images import ImagePlacement
from mlxctl.formats.adapters.parser_choice import thinking_source
from mlxctl.formats.adapters.templates.chat_template import ChatTemplate, TemplateMessage
from mlxctl.formats.adapters.templates.conversation import template_messages, template_tools
from mlxctl.formats.adapters.templates.reshaping import num_leading_systems, reshape
from mlxctl.formats.adapters.templates.result_images import shown_audio, shown_images
from mlxctl.formats.adapters.templates.shape import PROBE_CALL_NAME, TemplateShape, nearest_effort
from mlxctl.formats.adapters.templates.shown_texts import check_shown
from mlxctl.formats.adapters.templates.text_calls import text_call_format
from mlxctl.formats.parsers import ThinkingParser, ToolParser
from mlxctl.ir import GenerationRequest, TextPart, ToolSpec
from mlxctl.ir.errors import InvalidRequest

_RESERVED_OPTIONS = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "tokenize", "chat_template"}
)
_NO_PROFILE = FamilyProfile()
# Every template takes turns of user and assistant.
_MINIMAL_SHAPE = TemplateShape(takes_unanswered_results=True)
# Marks the end of a message that is continued; a template may put anything after it.
_END_MARK = "END-OF-THE-CONTINUED-TEXT"
_EFFORTS_WITHOUT_THINKING = ("none", "minimal")
_NO_TOOLS = (
    "this model's chat template cannot offer tools, or writes calls in an unknown format; to offer them in "
    'the system prompt, set tool_delivery = "injected" for the model in capabilities.toml'
)
_NO_CALLS = (
    "this model was found to call no tools by itself; force a call (tool_choice required or any, or a tool's "
    'name), send tool_choice none, or set tools = "yes" for the model in capabilities.toml'
)


ForcePrefix = Callable[[str | None], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text of a prompt.

    `tail` is its end from the last open marker on. `opening` is text that will most likely follow: if the
    tokenizer merges it with the end, the prompt may extend into it. `may_think` is true if the model may
    think before it answers, whether or not the prompt opens that; not after a thought that the prompt closes.
    """

    text: str
    tail: str = ""
    opening: str = ""
    may_think: bool = False


class PromptWriter:
    """Writes prompts for one model.

    Thinking: the request's option overrides the template variable, which overrides an effort, then
    the profile's default; without any, the template decides. It is turned off by the
    template's variable; a template without one gets an empty thinking block appended, or its open block
    closed. It is turned on by the variable, or not at all. A model without thinking ignores both.

    `force_call(name)` is the text that forces a call, as the template writes calls.
    """

    def __init__(
        self,
        template: ChatTemplate,
        shape: TemplateShape,
        tools: ToolParser,
        thinking: ThinkingParser,
        *,
        profile: FamilyProfile = _NO_PROFILE,
        injects_tools: bool = False,
        calls_tools: bool = True,
        vision: ImagePlacement | None = None,
        vision_problem: str | None = None,
        audio: AudioPlacement | None = None,
        audio_problem: str | None = None,
    ) -> None:
        """Take the template, what it supports, and the parsers.

        `vision` places images, and `audio` audio; `vision_problem` and `audio_problem` are why a model for
        these has none. `injects_tools` puts tool
        definitions into the system prompt and past calls into text, for a template that supports neither.
        Without `calls_tools` a probe found no calls: only forced ones are possible.
        """
        self._template = template
        self._vision = vision
        self._vision_problem = vision_problem
        self._audio = audio
        self._audio_problem = audio_problem
        self._shape = _with_text_calls(shape) if injects_tools else shape
        self._shape_without_tools = shape if shape.takes_calls_without_tools else _with_text_calls(shape)
        self._tools = tools
        self._thinking = thinking
        self._profile = profile
        self._injects_tools = injects_tools
        self.force_call = _find_dialect(tools, self._shape.rendered_call)
        self._text_calls = text_call_format(tools, self.force_call)
        self.thinking_switch = next(
            (name for name in profile.thinking_switches if name in template.variables), None
        )
        self._offers_tools = bool(tools.opener) and (shape.takes_tools or injects_tools)
        self.supports_tools = self._offers_tools and calls_tools
        source = thinking_source(template)
        self.supports_thinking = bool(thinking.opener) and (
            self.thinking_switch is not None or thinking.opener in source or thinking.closer in source
        )
        self.can_force_tools = self._offers_tools and self.force_call(None) is not None

    def write(self, request: GenerationRequest) -> Prompt:
        """Write the prompt; raises InvalidRequest for what this model cannot do."""
        tools = self._available_tools(request)
        is_forced = request.tool_choice.is_forced
        if request.continues_answer:
            return self._write_start_of_answer(request, tools)
        wants_thinking = False if is_forced else self._wants_thinking(request)
        text = self._render(request, tools, wants_thinking, is_open=request.opens_answer)
        if not request.opens_answer and not is_forced:
            return Prompt(text=text, may_think=self.supports_thinking)
        if wants_thinking is False and self.supports_thinking:
            text += self._without_thinking(text)
        if not is_forced:
            may_think = (
                self.supports_thinking
                and wants_thinking is not False
                and not text.rstrip().endswith(self._thinking.closer)
            )
            return Prompt(text=text, tail=self._open_marker(text), may_think=may_think)
        prefix = self.force_call(request.tool_choice.name)
        assert prefix is not None
        takes_arguments = any(
            tool.name == request.tool_choice.name and tool.parameters.get("properties") for tool in tools
        )
        has_opening = takes_arguments and self.force_call is self._tools.forced_prefix
        return Prompt(
            text=text + _rest_of(prefix, text),
            tail=prefix,
            opening=self._tools.arguments_opening if has_opening else "",
        )

    def _write_start_of_answer(self, request: GenerationRequest, tools: Sequence[ToolSpec]) -> Prompt:
        """Write a prompt that ends with the text of the last message.

        What the template puts after that text is cut off.
        """
        last = request.messages[-1]
        if not last.is_start_of_answer:
            raise InvalidRequest(
                "the last message must be an assistant message with text and without tool calls to be "
                "continued",
                param="messages",
            )
        excluded = "tool_choice" if request.tool_choice.is_forced else None
        if request.constraint is not None:
            excluded = request.constraint.param
        if excluded is not None:
            raise InvalidRequest(
                f"{excluded} decides how the answer begins, so the last message cannot be continued; "
                "leave one of them out",
                param=excluded,
            )
        marked = replace(last, parts=(*last.parts, TextPart(text=_END_MARK)))
        request = replace(request, messages=(*request.messages[:-1], marked))
        whole = self._render(request, tools, self._wants_thinking(request), is_open=False)
        text, mark, _ = whole.rpartition(_END_MARK)
        if not mark:
            raise InvalidRequest(
                "the chat template does not show the last message, so it cannot be continued",
                param="messages",
            )
        return Prompt(text=text)

    def write_without_generation_prompt(self, request: GenerationRequest) -> str:
        """Write a conversation without the header of the next answer.

        Raises InvalidRequest as `write` does.
        """
        wants_thinking = False if request.tool_choice.is_forced else self._wants_thinking(request)
        return self._render(request, self._available_tools(request), wants_thinking, is_open=False)

    def _render(
        self,
        request: GenerationRequest,
        tools: Sequence[ToolSpec],
        wants_thinking: bool | None,
        *,
        is_open: bool = True,
    ) -> str:
        definitions = template_tools(tools)
        shape = self._shape if definitions else self._shape_without_tools
        # Results that become text are in user messages, which may always show images.
        shows_in_results = shape.takes_result_images or not shape.takes_results
        messages = template_messages(
            request.messages,
            placeholder=None if self._vision is None else self._vision.placeholder,
            shown=None if self._vision is None else self._vision.shown,
            shows_in_results=shows_in_results,
            vision_problem=self._vision_problem,
            audio_placeholder=None if self._audio is None else self._audio.placeholder,
            audio_problem=self._audio_problem,
        )
        options = self._options(request, wants_thinking)
        render = partial(self._render_without_loss, options=options, add_generation_prompt=is_open)
        if self._injects_tools or not definitions:
            text = render(self._with_definitions(messages, definitions), shape)
        else:
            try:
                text = render(messages, shape, tools=definitions)
            except InvalidRequest as problem:
                # A tool that the template cannot render does not fail the request.
                try:
                    text = render(self._with_definitions(messages, definitions), self._shape_without_tools)
                except InvalidRequest:
                    raise problem from None
        if self._vision is not None and shown_images(request.messages):
            text = self._vision.frame(text)
        if self._audio is not None and shown_audio(request.messages):
            text = self._audio.frame(text)
        return text

    def _with_definitions(
        self, messages: list[TemplateMessage], definitions: Sequence[Mapping[str, Any]]
    ) -> list[TemplateMessage]:
        """Return the conversation with the tools in a system message."""
        if not definitions:
            return messages
        written = {"role": "system", "content": self._text_calls.tool_definitions(definitions)}
        at = num_leading_systems(messages)
        return [*messages[:at], written, *messages[at:]]

    def _render_without_loss(self, messages: list[TemplateMessage], shape: TemplateShape, **more: Any) -> str:
        """Render in this shape, or a simpler one that shows every text.

        Raises the first shape's InvalidRequest if there is none.
        """
        merged = replace(shape, takes_system=False)
        shapes = (
            shape,
            merged,
            replace(shape, takes_text_beside_calls=False),
            replace(merged, takes_text_beside_calls=False),
            _MINIMAL_SHAPE,
        )
        problem: InvalidRequest | None = None
        for shape in dict.fromkeys(shapes):
            try:
                text = self._template.render(reshape(messages, shape, self._text_calls), **more)
                check_shown(messages, text, thinking_closer=self._thinking.closer)
            except InvalidRequest as error:
                problem = problem or error
            else:
                return text
        assert problem is not None, "there is at least one shape"
        raise problem

    def _available_tools(self, request: GenerationRequest) -> tuple[ToolSpec, ...]:
        choice = request.tool_choice
        if choice.mode == "none":
            return ()
        if request.tools and not self._offers_tools:
            raise InvalidRequest(_NO_TOOLS, param="tools")
        if request.tools and not (self.supports_tools or choice.is_forced):
            raise InvalidRequest(_NO_CALLS, param="tools")
        if choice.is_forced and not request.tools:
            raise InvalidRequest(
                "tool_choice forces a tool call, but there are no tools", param="tool_choice"
            )
        if choice.is_forced and not self.can_force_tools:
            raise InvalidRequest(
                "this model cannot be forced to call a tool; use tool_choice auto", param="tool_choice"
            )
        names = [tool.name for tool in request.tools]
        if choice.mode == "named" and choice.name not in names:
            raise InvalidRequest(
                f"tool_choice names {choice.name!r}, but the tools are {', '.join(names)}",
                param="tool_choice",
            )
        return request.tools

    def _wants_thinking(self, request: GenerationRequest) -> bool | None:
        if request.thinking.enabled is not None:
            return request.thinking.enabled
        option = next(
            (
                value
                for name in self._profile.thinking_switches
                if (value := request.template_kwargs.get(name)) is not None
            ),
            None,
        )
        if option is not None:
            if not isinstance(option, bool):
                raise InvalidRequest("a thinking option must be true or false", param="chat_template_kwargs")
            return option
        effort = request.thinking.effort
        return self._profile.thinks_by_default if effort is None else effort not in _EFFORTS_WITHOUT_THINKING

    def _options(self, request: GenerationRequest, wants_thinking: bool | None) -> Mapping[str, Any]:
        options = dict(request.template_kwargs)
        for name in sorted(_RESERVED_OPTIONS & options.keys()):
            raise InvalidRequest(
                f"chat_template_kwargs cannot set {name!r}", param=f"chat_template_kwargs.{name}"
            )
        if self.thinking_switch is not None and wants_thinking is not None:
            options[self.thinking_switch] = wants_thinking
        effort = self._effort(request, wants_thinking)
        if self._shape.effort_variable and effort is not None:
            options.setdefault(self._shape.effort_variable, nearest_effort(effort, self._shape.efforts))
        return options

    def _effort(self, request: GenerationRequest, wants_thinking: bool | None) -> str | None:
        """Return the effort by the family's name.

        A family that cannot turn thinking off has its lowest effort for "none".
        """
        effort = request.thinking.effort
        if effort is None and wants_thinking is False:
            return self._profile.efforts.get("none")
        return effort if effort is None else self._profile.efforts.get(effort, effort)

    def opens_thinking(self) -> bool:
        """Whether the template by default ends a prompt with an open thought."""
        try:
            text = self._template.render([{"role": "user", "content": "a question"}])
        except InvalidRequest:
            return False
        return bool(self._thinking.opener) and text.rstrip().endswith(self._thinking.opener)

    def _open_marker(self, text: str) -> str:
        """Return the end of the text from an open marker on.

        The marker opens a thought, or a message that has begun.
        """
        end = text.rstrip()
        for marker in (self._thinking.opener, *self._thinking.wrappers, *self._thinking.prompt_ends):
            if marker and end.endswith(marker):
                return text[text.rindex(marker) :]
        return ""

    def _without_thinking(self, text: str) -> str:
        """Return what to append so that the model answers without thinking."""
        end = text.rstrip()
        if end.endswith(self._thinking.opener):
            return self._thinking.closing
        if self.thinking_switch is not None or end.endswith(self._thinking.closer):
            return ""
        return _rest_of(self._thinking.closed_block, end)


def _rest_of(block: str, text: str) -> str:
    """Return the block without the part that ends the text.

    A prompt may end with the beginning of a block: the header of a message.
    """
    begun = next((length for length in range(len(block), 0, -1) if text.endswith(block[:length])), 0)
    return block[begun:]


def _with_text_calls(shape: TemplateShape) -> TemplateShape:
    return replace(shape, rendered_call="", takes_results=False, takes_unanswered_results=True)


def _find_dialect(tools: ToolParser, rendered_call: str) -> ForcePrefix:
    """Return the longest forced prefix that the template itself renders.

    If it renders none of them, return the format's first one.
    """
    shown = [
        force
        for force in (tools.forced_prefix, *tools.dialects)
        if (force(PROBE_CALL_NAME) or "\0") in rendered_call
    ]
    return max(shown, key=lambda force: len(force(PROBE_CALL_NAME) or ""), default=tools.forced_prefix)
