"""The messages and options of one chat. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.attachments import Attachment, attached_to
from mlxctl.ir import (
    Constraint,
    ContextOverflow,
    GenerationRequest,
    Message,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ToolSpec,
    text_message,
)
from mlxctl.ir.sampling_ranges import seed_option, top_k_option

ThinkingChoice = Literal["default", "on", "off"]

NEARLY_FULL = 0.8
"""Share of the context from which the chat warns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of a chat; None leaves a value to the model.

    `context_overflow` is what an mlxctl server does with a conversation that is too long. `uses_tools` offers
    the tools of the chat. Calls that need no approval run at once, or with
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
    context_overflow: ContextOverflow | None = None
    uses_tools: bool = False
    asks_before_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message; `is_partial` marks an answer that was cancelled or failed.

    Complete answers have `statistics`. `shown` is the text of a question with a mark for each long paste or
    file; None without such marks.
    """

    message: Message
    shown: str | None = None
    is_partial: bool = False
    thinking_seconds: float | None = None
    statistics: AnswerStatistics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedQuestion:
    """A question and its attachments, to be asked after the running answer."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    shown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEntry:
    """A question, or a whole answer: its texts, tool calls and results.

    `number` counts the entries from 1; `start` is the index of the first of its `messages`. `question` is the
    question itself or, for an answer, the one that it answers; None for an answer without one.
    """

    number: int
    start: int
    messages: tuple[ChatMessage, ...]
    question: ChatMessage | None

    @property
    def is_question(self) -> bool:
        """Whether this is a question; else it is an answer."""
        return self.messages[0] is self.question

    @property
    def end(self) -> int:
        """The index after the last of its messages."""
        return self.start + len(self.messages)

    @property
    def text(self) -> str:
        """The text of the question, or all texts of the answer."""
        texts = (item.message.text for item in self.messages if item.message.role != "tool")
        return "\n\n".join(text for text in texts if text)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The images and PDF files of the question."""
        return attached_to(self.messages[0].message.parts)

    @property
    def statistics(self) -> AnswerStatistics | None:
        """The statistics of the answer's last request."""
        return next((item.statistics for item in reversed(self.messages) if item.statistics), None)

    @property
    def num_calls(self) -> int:
        """The number of tool calls of the answer."""
        return sum(len(item.message.tool_calls) for item in self.messages)


Scope = Literal["message", "after"]
"""What is deleted: an entry, a question with its answer; or all entries after it."""


class Conversation:
    """Questions, answers and tool results in order.

    The system prompt is an option, so that it can change during a chat.
    """

    def __init__(self, messages: Sequence[ChatMessage] = ()) -> None:
        self._messages = list(messages)
        self._failed: ChatMessage | None = None

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """All messages, oldest first."""
        return tuple(self._messages)

    @property
    def entries(self) -> tuple[ChatEntry, ...]:
        """The questions and answers, oldest first."""
        return entries(self._messages)

    @property
    def title(self) -> str:
        """The first line of the first question; empty without questions."""
        question = next((item.message.text for item in self._messages if item.message.role == "user"), "")
        return next((line.strip() for line in question.splitlines() if line.strip()), "")

    @property
    def last_question(self) -> ChatEntry | None:
        """The last question."""
        return next((entry for entry in reversed(self.entries) if entry.is_question), None)

    @property
    def last_answer(self) -> ChatEntry | None:
        """The last answer that has text."""
        answers = (entry for entry in reversed(self.entries) if not entry.is_question)
        return next((entry for entry in answers if entry.text), None)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The images and PDF files of all questions."""
        return attached_to(part for item in self._messages for part in item.message.parts)

    def find(self, number: str) -> ChatEntry:
        """Return the entry of this number. Raises ValueError."""
        found = self.entries
        if not number.isdecimal():
            raise ValueError(f"Expected the number of a message, not {number!r}. /messages shows them.")
        if not 1 <= int(number) <= len(found):
            count = f"has {len(found)} message{'s' * (len(found) != 1)}" if found else "is empty"
            raise ValueError(f"There is no message {number}: this chat {count}.")
        return found[int(number) - 1]

    def question_of(self, entry: ChatEntry) -> ChatEntry:
        """Return the question of an answer; a question is its own.

        Raises ValueError for an answer without one.
        """
        if entry.is_question:
            return entry
        if entry.question is None:
            raise ValueError(f"Message {entry.number} is an answer without a question.")
        return self.entries[entry.number - 2]

    @property
    def failed_question(self) -> ChatEntry | None:
        """The last question, if it failed and has no answer."""
        question = self.last_question
        is_failed = question is not None and question.question is self._failed and not self.is_answered
        return question if is_failed else None

    def mark_failed(self) -> None:
        """Note that the last question could not be answered."""
        self._failed = self._messages[-1] if self._messages and not self.is_answered else None

    @property
    def num_context_tokens(self) -> int | None:
        """The tokens of the last prompt and its answer, if counted."""
        last = self._messages[-1].statistics if self._messages else None
        if last is None or last.prompt_tokens is None:
            return None
        return last.prompt_tokens + (last.completion_tokens or 0)

    def add_question(
        self, text: str, attachments: Sequence[Attachment] = (), *, shown: str | None = None
    ) -> ChatMessage:
        """Add a question and its attachments, and return it.

        It replaces a question that failed: the model would take both for one.
        """
        if self.failed_question is not None:
            self._messages.pop()
        message = Message(role="user", parts=(*attachments, TextPart(text=text)))
        self._messages.append(ChatMessage(message=message, shown=shown))
        return self._messages[-1]

    def add(self, message: ChatMessage) -> None:
        """Add an answer or tool results."""
        self._messages.append(message)

    @property
    def is_answered(self) -> bool:
        """Whether the last question has any answer."""
        return bool(self._messages) and self._messages[-1].message.role != "user"

    def within(self, entry: ChatEntry, scope: Scope) -> tuple[ChatEntry, ...]:
        """Return the entries that a deletion at this one removes.

        Tool results always go with their calls.
        """
        following = self.entries[entry.number :]
        if scope == "after":
            return following
        has_answer = entry.is_question and following and not following[0].is_question
        return (entry, *following[: int(bool(has_answer))])

    def remove(self, removed: Sequence[ChatEntry]) -> tuple[ChatMessage, ...]:
        """Remove adjacent entries, and return their messages."""
        if not removed:
            return ()
        start, end = removed[0].start, removed[-1].end
        messages = tuple(self._messages[start:end])
        del self._messages[start:end]
        return messages

    def remove_last_question(self) -> ChatEntry | None:
        """Remove and return the last question, and remove its answer."""
        question = self.last_question
        if question is not None:
            self.remove(self.within(question, "message"))
        return question

    def request(self, model: str, options: ChatOptions, tools: Sequence[ToolSpec]) -> GenerationRequest:
        """Return the request that continues the conversation."""
        system = (text_message("system", options.system_prompt),) if options.system_prompt else ()
        enabled = {"default": None, "on": True, "off": False}[options.thinking]
        return GenerationRequest(
            model=model,
            messages=(*system, *_alternating(item.message for item in self._messages)),
            tools=tuple(tools),
            sampling=SamplingOptions(
                temperature=options.temperature,
                top_p=options.top_p,
                top_k=top_k_option(options.top_k),
                min_p=options.min_p,
                repetition_penalty=options.repetition_penalty,
                presence_penalty=options.presence_penalty,
                frequency_penalty=options.frequency_penalty,
                seed=seed_option(options.seed),
            ),
            stop=options.stop,
            constraint=None
            if options.json_schema is None
            else Constraint(kind="json_schema", value=options.json_schema, param="json_schema"),
            thinking=ThinkingOptions(enabled=enabled),
            max_tokens=options.max_tokens,
            context_overflow=options.context_overflow,
            stream=True,
        )


def context_share(num_tokens: int | None, context_length: int | None) -> float:
    """Return the share of the context in use; 0 if unknown."""
    return num_tokens / context_length if num_tokens is not None and context_length else 0.0


def turns(messages: Sequence[ChatMessage]) -> Iterator[tuple[ChatMessage | None, list[ChatMessage]]]:
    """Yield each question with the messages after it.

    Messages before the first question come with None.
    """
    question: ChatMessage | None = None
    answer: list[ChatMessage] = []
    for item in messages:
        if item.message.role == "user":
            if question is not None or answer:
                yield question, answer
            question, answer = item, []
        else:
            answer.append(item)
    if question is not None or answer:
        yield question, answer


def entries(messages: Sequence[ChatMessage]) -> tuple[ChatEntry, ...]:
    """Return the questions and answers of the messages, oldest first."""
    found: list[ChatEntry] = []
    start = 0
    for question, answer in turns(messages):
        for part in ([question] if question is not None else [], answer):
            if part:
                entry = ChatEntry(number=len(found) + 1, start=start, messages=tuple(part), question=question)
                found.append(entry)
                start += len(part)
    return tuple(found)


def describe(removed: Sequence[ChatEntry]) -> str:
    """Return adjacent entries as text: `message 3 (1 question)`."""
    counts = {
        "question": sum(entry.is_question for entry in removed),
        "answer": sum(not entry.is_question for entry in removed),
        "tool call": sum(entry.num_calls for entry in removed),
        "attachment": sum(len(entry.attachments) for entry in removed),
    }
    parts = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items() if count]
    return f"message{'s' * (len(removed) > 1)} {numbers_of(removed)} ({', '.join(parts)})"


def numbers_of(adjacent: Sequence[ChatEntry]) -> str:
    """Return the numbers of adjacent entries as text: `3 to 5`."""
    first, last = adjacent[0].number, adjacent[-1].number
    if first == last:
        return f"{first}"
    return f"{first} and {last}" if last == first + 1 else f"{first} to {last}"


def _alternating(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with adjacent questions joined.

    Many templates demand that questions and answers alternate; an answer may have been deleted, or stopped
    before it began.
    """
    waiting: Message | None = None
    for message in messages:
        if not message.parts:
            continue
        if waiting is not None and message.role == "user":
            waiting = replace(waiting, parts=(*waiting.parts, TextPart(text="\n\n"), *message.parts))
            continue
        if waiting is not None:
            yield waiting
        waiting = message if message.role == "user" else None
        if waiting is None:
            yield message
    if waiting is not None:
        yield waiting
