"""Replaces the older messages of a chat by the model's summary."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from msgspec import structs

from mlxctl.chat.chat_backend import BackendModel, ChatBackend
from mlxctl.chat.chat_turn import ChatTurn
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation, turns
from mlxctl.chat.error_text import is_too_long
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.turn_updates import AnswerCut
from mlxctl.ir import Message, text_message
from mlxctl.ir.errors import EngineError, MlxctlError

_REQUEST = (
    "Summarize our conversation up to here, so that it can go on from the summary alone: facts, names, "
    "numbers, decisions, code that matters, and what is still open. Write only the summary."
)
# A share of the context; without a known context as many as this.
_SUMMARY_SHARE, _SUMMARY_TOKENS = 8, 512


@dataclass(frozen=True, slots=True)
class Compaction:
    """The messages that remain, and the numbers of turns that do not."""

    messages: tuple[ChatMessage, ...]
    num_summarized: int
    num_dropped: int

    @property
    def description(self) -> str:
        """One or two sentences about what happened."""
        dropped = f"{_count(self.num_dropped)} {'was' if self.num_dropped == 1 else 'were'} left out"
        if not self.num_summarized:
            return f"There is no room for a summary: the oldest {dropped}."
        text = f"A summary replaces the earlier {_count(self.num_summarized)}."
        return (
            f"{text} There was no room to summarize more: the oldest {dropped}." if self.num_dropped else text
        )


async def compact(
    backend: ChatBackend, model: BackendModel, conversation: Conversation, options: ChatOptions
) -> Compaction | None:
    """Return the shorter chat; None for an empty one.

    The last turn stays, unless only a summary is before it. Where the request for the summary does not fit,
    half of its turns are left out, the oldest first, until it does. Raises MlxctlError.
    """
    found = [
        [*([question] if question else []), *answer] for question, answer in turns(conversation.messages)
    ]
    if not found:
        return None
    older, kept = found[:-1], tuple(map(_without_prompt_size, found[-1]))
    if all(_is_summary(turn) for turn in older):
        older, kept = found, ()
    num_dropped = 0
    while num_dropped < len(older):
        summarized = [message for turn in older[num_dropped:] for message in turn]
        summary = await _summarize(backend, model, summarized, options)
        if summary is not None:
            question = text_message("user", f"{conversation.title}\n\n{_REQUEST}".strip())
            pair = (ChatMessage(message=question), ChatMessage(message=summary))
            return Compaction(
                (*pair, *kept), num_summarized=len(older) - num_dropped, num_dropped=num_dropped
            )
        num_dropped += max(1, (len(older) - num_dropped) // 2)
    return Compaction(kept, num_summarized=0, num_dropped=len(older))


def _is_summary(turn: Sequence[ChatMessage]) -> bool:
    return turn[0].message.text.endswith(_REQUEST)


async def _summarize(
    backend: ChatBackend, model: BackendModel, messages: Sequence[ChatMessage], options: ChatOptions
) -> Message | None:
    """Return the summary; None where prompt and summary exceed the context."""
    asked = Conversation(messages)
    asked.add_question(_REQUEST)
    most = _SUMMARY_TOKENS if model.context_length is None else max(1, model.context_length // _SUMMARY_SHARE)
    plain = ChatOptions(
        system_prompt=options.system_prompt,
        temperature=options.temperature,
        max_tokens=most,
        thinking="off" if model.supports_thinking else "default",
    )
    turn, is_full = ChatTurn(backend, model, asked, plain, tools=ToolBox([])), False
    try:
        async with aclosing(turn.run()) as updates:
            async for batch in updates:
                is_full = is_full or any(
                    isinstance(update, AnswerCut) and update.is_context_full for update in batch
                )
    except MlxctlError as error:
        if not is_too_long(error):
            raise
        return None
    if is_full:
        return None
    answer = asked.messages[-1].message
    text = answer.text.strip() if answer.role == "assistant" else ""
    if not text:
        raise EngineError("the model wrote no summary")
    return text_message("assistant", text)


def _without_prompt_size(item: ChatMessage) -> ChatMessage:
    """Return a message without the length of its former prompt."""
    if item.statistics is None:
        return item
    return replace(item, statistics=structs.replace(item.statistics, prompt_tokens=None, cached_tokens=None))


def _count(num_turns: int) -> str:
    return "question with its answer" if num_turns == 1 else f"{num_turns} questions with their answers"
