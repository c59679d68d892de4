"""A conversation that was had before, as the updates that drew it when it was new."""

from collections.abc import Iterator, Sequence

from mlxctl.ir import (
    Message,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
)
from mlxctl.tui.conversation import Said
from mlxctl.tui.exchange import RoundStarted, ThinkingEnded, ToolReturned, Update


def replay(said: Sequence[Said]) -> list[Update]:
    """Return the updates of one answer: of everything that was said after a question, up to the next one."""
    updates: list[Update] = []
    calls: dict[str, ToolCallPart] = {}
    for item in said:
        if item.message.role == "assistant":
            calls |= {call.id: call for call in item.message.tool_calls}
            updates += _answer(item)
        else:
            results = item.message.tool_results
            updates += [
                ToolReturned(call=calls[result.call_id], result=result)
                for result in results
                if result.call_id in calls
            ]
    return updates


def turns(said: Sequence[Said]) -> Iterator[tuple[Message | None, list[Said]]]:
    """Yield each question with what followed it; what comes before the first question has None for one."""
    question: Message | None = None
    answer: list[Said] = []
    for item in said:
        if item.message.role == "user":
            if question is not None or answer:
                yield question, answer
            question, answer = item.message, []
        else:
            answer.append(item)
    if question is not None or answer:
        yield question, answer


def _answer(item: Said) -> Iterator[Update]:
    message: Message = item.message
    yield RoundStarted()
    if message.thinking:
        yield ThinkingDelta(text=message.thinking)
        yield ThinkingEnded(seconds=item.thinking_seconds)
    if message.text:
        yield TextDelta(text=message.text)
    for index, call in enumerate(message.tool_calls):
        yield ToolCallStarted(index=index, id=call.id, name=call.name)
        yield ToolArgumentsDelta(index=index, json=call.arguments)
        yield ToolCallEnded(index=index)
