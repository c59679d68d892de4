"""Output items and their ids."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.ir import Part, TextPart, TextResult, ThinkingPart, TokenLogprob, ToolCallPart
from mlxctl.protocols.openai.freeform import FreeformInput
from mlxctl.protocols.openai.logprobs import token_logprobs
from mlxctl.protocols.openai.responses.answers import (
    CustomCallItem,
    FunctionCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    OutputTextPart,
    ReasoningItem,
    ReasoningTextPart,
    SummaryTextPart,
)
from mlxctl.protocols.openai.responses.tools import OfferedTools
from mlxctl.protocols.thinking_signature import sign

CallItem = FunctionCallItem | CustomCallItem


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStyle:
    """How output items are written for one request.

    Thinking is written as a summary if the request asks for one, since clients show that, else verbatim. With
    `encrypts_thinking` the `encrypted_content` carries it too.
    """

    offer: OfferedTools
    item_suffix: str
    writes_summary: bool = False
    encrypts_thinking: bool = False

    def item_id(self, prefix: str, index: int) -> str:
        """Return the id of the output item at `index`."""
        return f"{prefix}_{self.item_suffix}o{index:x}"

    def message(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob], status: ItemStatus
    ) -> MessageItem:
        """Return a message of one text."""
        return self._message(index, [text_part(text, logprobs)], status)

    def started_message(self, index: int) -> MessageItem:
        """Return a message before its first token."""
        return self._message(index, [], "in_progress")

    def reasoning(self, index: int, text: str, status: ItemStatus) -> ReasoningItem:
        """Return the item for whole thinking."""
        return self._reasoning(
            index,
            summary=[SummaryTextPart(text)] if self.writes_summary else [],
            content=[ReasoningTextPart(text)],
            encrypted_content=sign(text, carry=True) if self.encrypts_thinking else UNSET,
            status=status,
        )

    def started_reasoning(self, index: int) -> ReasoningItem:
        """Return thinking before its first token."""
        return self._reasoning(index, summary=[], content=[], encrypted_content=UNSET, status="in_progress")

    def call(self, index: int, call: ToolCallPart) -> CallItem:
        """Return a whole call.

        Without complete JSON arguments it is incomplete, so that clients do not run it.
        """
        status: ItemStatus = "completed" if _is_object(call.arguments) else "incomplete"
        is_freeform = self.offer.is_freeform(call.name)
        text = FreeformInput.of(call.arguments) if is_freeform else call.arguments
        return self._call(index, call.id, call.name, text, status)

    def started_call(self, index: int, call_id: str, full_name: str) -> CallItem:
        """Return a call before its arguments."""
        return self._call(index, call_id, full_name, "", "in_progress")

    def _message(self, index: int, content: list[OutputTextPart], status: ItemStatus) -> MessageItem:
        return MessageItem(
            id=self.item_id("msg", index), type="message", status=status, role="assistant", content=content
        )

    def _reasoning(
        self,
        index: int,
        *,
        summary: list[SummaryTextPart],
        content: list[ReasoningTextPart],
        encrypted_content: str | UnsetType,
        status: ItemStatus,
    ) -> ReasoningItem:
        return ReasoningItem(
            id=self.item_id("rs", index),
            type="reasoning",
            summary=summary,
            content=UNSET if self.writes_summary else content,
            encrypted_content=encrypted_content,
            status=status,
        )

    def _call(self, index: int, call_id: str, full_name: str, text: str, status: ItemStatus) -> CallItem:
        name, namespace = self.offer.called(full_name)
        if self.offer.is_freeform(full_name):
            return CustomCallItem(
                id=self.item_id("ctc", index),
                type="custom_tool_call",
                status=status,
                call_id=call_id,
                name=name,
                input=text,
                namespace=UNSET if namespace is None else namespace,
            )
        return FunctionCallItem(
            id=self.item_id("fc", index),
            type="function_call",
            status=status,
            call_id=call_id,
            name=name,
            arguments=text,
            namespace=UNSET if namespace is None else namespace,
        )

    def items(self, result: TextResult) -> list[OutputItem]:
        """Return the items of a whole answer, in the order of generation."""
        last = len(result.message.parts) - 1
        logprobs = deque(result.logprobs)
        items: list[OutputItem] = []
        for index, part in enumerate(result.message.parts):
            is_cut = result.reason in ("length", "refusal") and index == last
            items.append(self._item(index, part, logprobs, "incomplete" if is_cut else "completed"))
        return items

    def _item(self, index: int, part: Part, logprobs: deque[TokenLogprob], status: ItemStatus) -> OutputItem:
        match part:
            case TextPart():
                return self.message(index, part.text, _take(logprobs, len(part.text.encode())), status)
            case ThinkingPart():
                return self.reasoning(index, part.text, status)
            case ToolCallPart():
                return self.call(index, part)
            case _:
                raise AssertionError(f"an answer holds no {type(part).__name__}")


def text_part(text: str, logprobs: Sequence[TokenLogprob]) -> OutputTextPart:
    """Return a part of visible text."""
    return OutputTextPart(text=text, annotations=[], logprobs=token_logprobs(logprobs))


def _take(logprobs: deque[TokenLogprob], num_bytes: int) -> list[TokenLogprob]:
    """Remove and return tokens starting in the next `num_bytes` of text."""
    taken: list[TokenLogprob] = []
    while logprobs and num_bytes > 0:
        taken.append(logprobs.popleft())
        num_bytes -= len(taken[-1].data)
    return taken


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
