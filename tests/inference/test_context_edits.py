"""Context edits remove old tool results and thinking."""

from mlxctl.inference.preparation.context_edits import edit_context
from mlxctl.ir import (
    ClearThinking,
    ClearToolUses,
    ContextEdit,
    GenerationRequest,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_message,
)

REMOVED = "[removed to save context]"


def tool_turns(*names: str, edit: ContextEdit) -> GenerationRequest:
    """A conversation with a call of each tool.

    Each follows thinking and has a result of 100 characters.
    """
    messages = [text_message("user", "Go.")]
    for index, name in enumerate(names):
        call = ToolCallPart(id=f"t{index}", name=name, arguments='{"a": 1}')
        result = ToolResultPart(call_id=f"t{index}", content=(TextPart(text="r" * 100),))
        messages.append(Message(role="assistant", parts=(ThinkingPart(text="Hm."), call)))
        messages.append(Message(role="tool", parts=(result,)))
    return GenerationRequest(model="small", messages=tuple(messages), context_edits=(edit,))


def count(request: GenerationRequest) -> int:
    """Count the characters of results and thinking."""
    return sum(
        len(message.thinking) + sum(len(result.text) for result in message.tool_results)
        for message in request.messages
    )


def result_texts(request: GenerationRequest) -> list[str]:
    return [result.text[:1] for message in request.messages for result in message.tool_results]


def test_results_before_the_last_kept_ones_are_cleared() -> None:
    request = tool_turns("a", "b", "a", edit=ClearToolUses(trigger_calls=2, num_kept=1))
    edited, (applied,) = edit_context(request, count)
    assert result_texts(edited) == ["[", "[", "r"]
    assert (applied.kind, applied.num_cleared, applied.num_tokens) == (
        "tool_uses",
        2,
        2 * (100 - len(REMOVED)),
    )


def test_results_of_excluded_tools_stay() -> None:
    edit = ClearToolUses(trigger_tokens=0, num_kept=0, kept_tools=frozenset("b"))
    edited, _ = edit_context(tool_turns("a", "b", edit=edit), count)
    assert result_texts(edited) == ["[", "r"]


def test_arguments_are_cleared_for_the_named_tools_only() -> None:
    edit = ClearToolUses(trigger_tokens=0, num_kept=0, cleared_inputs=frozenset("b"))
    edited, _ = edit_context(tool_turns("a", "b", edit=edit), count)
    calls = [call.arguments for message in edited.messages for call in message.tool_calls]
    assert calls == ['{"a": 1}', "{}"]


def test_nothing_is_cleared_below_trigger_or_minimum() -> None:
    for edit in (
        ClearToolUses(trigger_tokens=209, num_kept=0),
        ClearToolUses(trigger_calls=2, num_kept=0),
        ClearToolUses(trigger_tokens=0, num_kept=0, min_cleared_tokens=151),
        ClearToolUses(trigger_tokens=0, num_kept=2),
        ClearThinking(num_kept=2),
    ):
        request = tool_turns("a", "b", edit=edit)
        assert edit_context(request, count) == (request, ())


def test_thinking_of_earlier_answers_is_cleared() -> None:
    edited, (applied,) = edit_context(tool_turns("a", "b", "c", edit=ClearThinking()), count)
    assert [message.thinking for message in edited.messages if message.role == "assistant"] == ["", "", "Hm."]
    assert (applied.kind, applied.num_cleared, applied.num_tokens) == ("thinking", 2, 6)


def test_a_conversation_cleared_before_is_not_cleared_again() -> None:
    edit = ClearToolUses(trigger_tokens=0, num_kept=0)
    edited, _ = edit_context(tool_turns("a", edit=edit), count)
    assert edit_context(edited, count) == (edited, ())
