"""Output items, as they are when they are complete, and the ids by which they are known."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from mlxctl.ir import Part, TextPart, TextResult, ThinkingPart, TokenLogprob, ToolCallPart
from mlxctl.protocols.openai.freeform import FreeformInput
from mlxctl.protocols.openai.logprobs import token_object
from mlxctl.protocols.openai.responses.tools import ToolOffer
from mlxctl.protocols.thinking_signature import sign

Item = dict[str, object]
Status = Literal["in_progress", "completed", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStyle:
    """How items are written for one request.

    Thinking is told as its own summary when the caller asked for one, since clients show that, else as it is.
    With `carries_thinking` it is also put where a caller keeps what it cannot read.
    """

    offer: ToolOffer
    item_suffix: str
    tells_summary: bool = False
    carries_thinking: bool = False

    def item_id(self, prefix: str, index: int) -> str:
        """Return the id of the output item at `index`."""
        return f"{prefix}_{self.item_suffix}o{index:x}"

    def message(self, index: int, text: str, logprobs: Sequence[TokenLogprob], status: Status) -> Item:
        """Return a message of one text."""
        return self.started_message(index) | {"status": status, "content": [text_part(text, logprobs)]}

    def reasoning(self, index: int, text: str, status: Status) -> Item:
        """Return what was thought."""
        told: Item = (
            {"summary": [summary_part(text)]} if self.tells_summary else {"content": [thinking_part(text)]}
        )
        carried = sign(text, carry=True) if self.carries_thinking else None
        return self.started_reasoning(index) | told | {"encrypted_content": carried, "status": status}

    def call(self, index: int, call: ToolCallPart) -> Item:
        """Return a call; one whose arguments are no complete object is incomplete, so that nobody acts on it."""
        status: Status = "completed" if _is_object(call.arguments) else "incomplete"
        said = (
            {"input": FreeformInput.of(call.arguments)}
            if self.offer.is_freeform(call.name)
            else {"arguments": call.arguments}
        )
        return self.started_call(index, call.id, call.name) | said | {"status": status}

    def started_message(self, index: int) -> Item:
        """Return a message before its first word."""
        return {
            "id": self.item_id("msg", index),
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }

    def started_reasoning(self, index: int) -> Item:
        """Return thinking before its first word."""
        item: Item = {"id": self.item_id("rs", index), "type": "reasoning", "summary": []}
        if not self.tells_summary:
            item["content"] = []
        return item | {"encrypted_content": None, "status": "in_progress"}

    def started_call(self, index: int, call_id: str, full_name: str) -> Item:
        """Return a call before its arguments."""
        name, namespace = self.offer.called(full_name)
        is_freeform = self.offer.is_freeform(full_name)
        item: Item = {
            "id": self.item_id("ctc" if is_freeform else "fc", index),
            "type": "custom_tool_call" if is_freeform else "function_call",
            "status": "in_progress",
            "call_id": call_id,
            "name": name,
            "input" if is_freeform else "arguments": "",
        }
        return item if namespace is None else item | {"namespace": namespace}

    def items(self, result: TextResult) -> list[Item]:
        """Return the items of a whole answer, in the order in which the model produced them."""
        last = len(result.message.parts) - 1
        logprobs = deque(result.logprobs)
        items: list[Item] = []
        for index, part in enumerate(result.message.parts):
            is_cut = result.reason == "length" and index == last
            items.append(self._item(index, part, logprobs, "incomplete" if is_cut else "completed"))
        return items

    def _item(self, index: int, part: Part, logprobs: deque[TokenLogprob], status: Status) -> Item:
        match part:
            case TextPart():
                return self.message(index, part.text, _take(logprobs, len(part.text.encode())), status)
            case ThinkingPart():
                return self.reasoning(index, part.text, status)
            case ToolCallPart():
                return self.call(index, part)
            case _:
                raise AssertionError(f"an answer holds no {type(part).__name__}")


def text_part(text: str, logprobs: Sequence[TokenLogprob]) -> Item:
    """Return a piece of visible text."""
    scores = [token_object(token) for token in logprobs]
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": scores}


def thinking_part(text: str) -> Item:
    """Return a piece of thinking as it was."""
    return {"type": "reasoning_text", "text": text}


def summary_part(text: str) -> Item:
    """Return a piece of a summary of thinking."""
    return {"type": "summary_text", "text": text}


def _take(logprobs: deque[TokenLogprob], num_bytes: int) -> list[TokenLogprob]:
    """Remove and return the tokens that begin in the next `num_bytes` of text."""
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
