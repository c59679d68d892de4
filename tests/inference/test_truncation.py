"""Truncation drops as few of the oldest turns as needed."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.preparation.context_overflow import shorten, truncate_oldest
from mlxctl.ir import (
    GenerationRequest,
    Message,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    text_message,
)

CONTEXT_LENGTH = 100


def conversation(*message_sizes: tuple[Role, int], max_tokens: int | None = None) -> GenerationRequest:
    """A conversation of messages with these roles and numbers of tokens."""
    messages = tuple(text_message(role, "x" * num_tokens) for role, num_tokens in message_sizes)
    return GenerationRequest(model="small", messages=messages, max_tokens=max_tokens)


def count(request: GenerationRequest) -> int:
    return sum(len(message.text) for message in request.messages)


def roles_and_sizes(messages: tuple[Message, ...]) -> list[tuple[str, int]]:
    return [(message.role, len(message.text)) for message in messages]


def test_oldest_turn_is_dropped_whole() -> None:
    request = conversation(
        ("system", 5),
        ("user", 30),
        ("assistant", 30),
        ("tool", 20),
        ("assistant", 5),
        ("user", 10),
        ("assistant", 9),
    )
    shorter = truncate_oldest(request, count, context_length=CONTEXT_LENGTH)
    assert shorter is not None
    assert roles_and_sizes(shorter.messages) == [("system", 5), ("user", 10), ("assistant", 9)]


def test_system_messages_stay() -> None:
    request = conversation(("user", 80), ("system", 7), ("user", 40))
    shorter = truncate_oldest(request, count, context_length=CONTEXT_LENGTH)
    assert shorter is not None
    assert roles_and_sizes(shorter.messages) == [("system", 7), ("user", 40)]


def test_at_most_a_quarter_is_reserved_for_the_answer() -> None:
    turns: list[tuple[Role, int]] = [("user", 30)] * 4
    sizes = {}
    for max_tokens in (5, 1000, None):
        shorter = truncate_oldest(
            conversation(*turns, max_tokens=max_tokens), count, context_length=CONTEXT_LENGTH
        )
        assert shorter is not None
        sizes[max_tokens] = count(shorter)
    assert sizes == {5: 90, 1000: 60, None: 60}


def test_too_long_last_turn_gives_none() -> None:
    assert (
        truncate_oldest(conversation(("user", 10), ("user", 90)), count, context_length=CONTEXT_LENGTH)
        is None
    )
    assert truncate_oldest(conversation(("user", 500)), count, context_length=CONTEXT_LENGTH) is None
    assert truncate_oldest(conversation(("system", 500)), count, context_length=CONTEXT_LENGTH) is None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_no_turn_is_dropped_needlessly(sizes: list[int]) -> None:
    request = conversation(*(("user", size) for size in sizes))
    shorter = truncate_oldest(request, count, context_length=CONTEXT_LENGTH)
    if shorter is None:
        assert len(sizes) == 1 or sizes[-1] > 75
        return
    num_kept = len(shorter.messages)
    assert shorter.messages == request.messages[-num_kept:]
    assert count(shorter) <= 75
    assert num_kept == len(sizes) - 1 or sum(sizes[-num_kept - 1 :]) > 75


def test_compact_removes_earlier_tool_results_before_turns() -> None:
    result = ToolResultPart(call_id="call", content=(TextPart(text="y" * 500),))
    messages = (
        text_message("user", "x" * 10),
        Message(role="assistant", parts=(ThinkingPart(text="t" * 300), TextPart(text="a"))),
        Message(role="tool", parts=(result,)),
        text_message("user", "x" * 10),
    )

    def count_all(request: GenerationRequest) -> int:
        return len(repr(request.messages))

    whole = GenerationRequest(model="small", messages=messages, context_overflow="compact")
    shorter = shorten(whole, count_all, context_length=1200)
    assert shorter is not None
    assert [message.role for message in shorter.messages] == ["user", "assistant", "tool", "user"]
    assert "yyy" not in repr(shorter.messages[2])
    dropped = shorten(whole, count_all, context_length=300)
    assert dropped is not None
    assert dropped.messages == messages[3:]
