"""The messages and options of one chat. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    ImagePart,
    Message,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ToolSpec,
    text_message,
)
from mlxctl.tui.answer_statistics import AnswerStatistics

ThinkingChoice = Literal["default", "on", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of a chat; None leaves a value to the model.

    `uses_tools` offers the tools of the chat. Calls that need no approval run at once, or with
    `asks_before_tools` after a confirmation.
    """

    system_prompt: str = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    json_schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    thinking: ThinkingChoice = "default"
    uses_tools: bool = False
    asks_before_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message; `is_partial` marks an answer that was cancelled or failed.

    Complete answers have `statistics`.
    """

    message: Message
    is_partial: bool = False
    thinking_seconds: float | None = None
    statistics: AnswerStatistics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedQuestion:
    """A question and its images, to be asked after the running answer."""

    text: str
    images: tuple[ImagePart, ...] = ()


class Conversation:
    """Questions, answers and tool results in order.

    The system prompt is an option, so that it can change during a chat.
    """

    def __init__(self, messages: Sequence[ChatMessage] = ()) -> None:
        self._messages = list(messages)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """All messages, oldest first."""
        return tuple(self._messages)

    @property
    def last_question(self) -> str | None:
        """The text of the last question."""
        return next(
            (item.message.text for item in reversed(self._messages) if item.message.role == "user"), None
        )

    @property
    def title(self) -> str:
        """The first line of the first question; empty without questions."""
        question = next((item.message.text for item in self._messages if item.message.role == "user"), "")
        return next((line.strip() for line in question.splitlines() if line.strip()), "")

    @property
    def last_answer(self) -> str | None:
        """The last answer that has text."""
        answers = (item.message.text for item in reversed(self._messages) if item.message.role == "assistant")
        return next((text for text in answers if text), None)

    @property
    def last_images(self) -> tuple[ImagePart, ...]:
        """The images of the last question."""
        questions = [item.message for item in self._messages if item.message.role == "user"]
        return tuple(part for part in questions[-1].parts if isinstance(part, ImagePart)) if questions else ()

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images of all questions."""
        return tuple(
            part for item in self._messages for part in item.message.parts if isinstance(part, ImagePart)
        )

    def add_question(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Add a question and its images."""
        self._messages.append(ChatMessage(message=Message(role="user", parts=(*images, TextPart(text=text)))))

    def add(self, message: ChatMessage) -> None:
        """Add an answer or tool results."""
        self._messages.append(message)

    @property
    def is_answered(self) -> bool:
        """Whether the last question has any answer."""
        return bool(self._messages) and self._messages[-1].message.role != "user"

    def remove_answer(self) -> tuple[ChatMessage, ...] | None:
        """Remove and return the messages after the last question; None without one."""
        questions = [index for index, item in enumerate(self._messages) if item.message.role == "user"]
        if not questions:
            return None
        forgotten = tuple(self._messages[questions[-1] + 1 :])
        del self._messages[questions[-1] + 1 :]
        return forgotten

    def remove_question(self) -> str | None:
        """Remove the last question and its answer; return its text, or None."""
        text = self.last_question
        if self.remove_answer() is not None:
            self._messages.pop()
        return text

    def request(self, model: str, options: ChatOptions, tools: Sequence[ToolSpec]) -> GenerationRequest:
        """Return the request that continues the conversation."""
        system = (text_message("system", options.system_prompt),) if options.system_prompt else ()
        enabled = {"default": None, "on": True, "off": False}[options.thinking]
        return GenerationRequest(
            model=model,
            messages=(*system, *(item.message for item in self._messages if item.message.parts)),
            tools=tuple(tools),
            sampling=SamplingOptions(
                temperature=options.temperature,
                top_p=options.top_p,
                top_k=options.top_k,
                min_p=options.min_p,
                repetition_penalty=options.repetition_penalty,
                presence_penalty=options.presence_penalty,
                frequency_penalty=options.frequency_penalty,
                seed=options.seed,
            ),
            stop=options.stop,
            constraint=None
            if options.json_schema is None
            else Constraint(kind="json_schema", value=options.json_schema, param="json_schema"),
            thinking=ThinkingOptions(enabled=enabled),
            max_tokens=options.max_tokens,
            stream=True,
        )
