"""Turns: requests, tool rounds, retries and partial answers."""

import asyncio
from contextlib import aclosing

import pytest

from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_turn import MAX_ROUNDS, ChatTurn
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.turn_updates import (
    AnswerMeasured,
    DemoToolFailed,
    RoundsExhausted,
    ServerBusy,
    ToolReturned,
    Update,
)
from mlxctl.ir import GenerationRequest, TextDelta, ToolCallStarted
from mlxctl.ir.errors import CapacityError, ConnectionLost, InvalidRequest, ServerUnreachable

from .screen_driver import built_in_tools
from .scripted_backend import ScriptedAnswer, ScriptedBackend, call, text

TOOLS = built_in_tools()
MODEL = BackendModel(name="scripted", supports_tools=True)


async def play(
    backend: ScriptedBackend,
    conversation: Conversation,
    options: ChatOptions,
    model: BackendModel,
    tools: ToolBox = TOOLS,
) -> list[Update]:
    conversation.add_question("How much?")
    async with aclosing(ChatTurn(backend, model, conversation, options, tools=tools).run()) as batches:
        return [update async for batch in batches for update in batch]


def run(
    backend: ScriptedBackend, *, model: BackendModel = MODEL, tools: ToolBox = TOOLS, **options: object
) -> tuple[Conversation, list[Update]]:
    conversation = Conversation()
    chosen = ChatOptions(**options)  # type: ignore[arg-type]
    return conversation, asyncio.run(play(backend, conversation, chosen, model, tools))


def test_demo_tool_call_returns_its_result_to_the_model() -> None:
    backend = ScriptedBackend(call("calculator", '{"expression": "6*7"}'), text("It is 42."))
    conversation, updates = run(backend, uses_tools=True)
    assert [update.result.text for update in updates if isinstance(update, ToolReturned)] == ["42"]
    assert backend.requests[1].messages[-1].tool_results[0].call_id == "call_1"
    assert [messages.message.role for messages in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_every_complete_answer_is_measured() -> None:
    backend = ScriptedBackend(call("calculator", '{"expression": "6*7"}'), text("It is", " 42."))
    conversation, updates = run(backend, uses_tools=True)
    measured = [update.statistics for update in updates if isinstance(update, AnswerMeasured)]
    assert [statistics.completion_tokens for statistics in measured] == [5, 2]
    assert [item.statistics for item in conversation.messages] == [None, measured[0], None, measured[1]]


def test_busy_server_is_retried_with_an_update() -> None:
    class Busy(ScriptedBackend):
        num_refusals = 1

        async def start(self, request: GenerationRequest) -> ScriptedAnswer:
            if self.num_refusals:
                self.num_refusals -= 1
                raise CapacityError("the model is still being loaded", retry_after_seconds=0.1)
            return await super().start(request)

    conversation, updates = run(Busy(text("Much.")))
    assert ServerBusy(reason="the model is still being loaded") in updates
    assert conversation.messages[-1].message.text == "Much."


def test_unreachable_server_is_not_retried() -> None:
    with pytest.raises(ServerUnreachable):
        run(ScriptedBackend([ServerUnreachable("http://there", "gone")]))


def test_no_tools_are_offered_by_default() -> None:
    backend = ScriptedBackend(text("Much."))
    run(backend)
    assert backend.requests[0].tools == ()


def test_demo_model_gets_only_tools_that_need_no_approval() -> None:
    names = []
    for is_demo in (True, False):
        backend = ScriptedBackend(text("Much."))
        run(backend, model=BackendModel(name="scripted", is_demo=is_demo), uses_tools=True)
        names.append([tool.name for tool in backend.requests[0].tools])
    assert names[0] == ["calculator", "get_time"]
    assert set(names[1]) > {"read_file", "shell", *names[0]}


def test_call_is_not_run_where_no_tools_are_offered() -> None:
    tools = built_in_tools()
    tools.allow("shell")
    backend = ScriptedBackend(call("shell", '{"command": "true"}'), text("Much."))
    conversation, _ = run(backend, tools=tools)
    (result,) = conversation.messages[2].message.tool_results
    assert result.text == "error: no tools are offered in this chat"


def test_tools_with_an_unsupported_model_are_rejected() -> None:
    backend = ScriptedBackend(text("Much."))
    with pytest.raises(InvalidRequest, match="scripted cannot call tools"):
        run(backend, model=BackendModel(name="scripted", supports_tools=False), uses_tools=True)
    assert backend.requests == []


def test_tool_rounds_are_limited() -> None:
    backend = ScriptedBackend(*[call("calculator", '{"expression": "1"}')] * MAX_ROUNDS)
    _, updates = run(backend, uses_tools=True)
    assert isinstance(updates[-1], RoundsExhausted)


def test_broken_answer_is_kept_without_incomplete_calls() -> None:
    script = [
        TextDelta(text="It is "),
        ToolCallStarted(index=0, id="c", name="calculator"),
        ConnectionLost("gone"),
    ]
    conversation = Conversation()
    with pytest.raises(ConnectionLost):
        asyncio.run(play(ScriptedBackend(script), conversation, ChatOptions(), MODEL))
    kept = conversation.messages[-1]
    assert (kept.message.text, kept.message.tool_calls, kept.is_partial) == ("It is ", (), True)
    assert kept.statistics is None


def test_stopping_cancels_and_keeps_the_partial_answer() -> None:
    backend = ScriptedBackend([TextDelta(text="One"), 60.0, *text(" two")])
    conversation = Conversation()

    async def stop_at_the_first_word() -> None:
        conversation.add_question("Count")
        async with aclosing(
            ChatTurn(backend, MODEL, conversation, ChatOptions(), tools=TOOLS).run()
        ) as batches:
            async for batch in batches:
                if any(isinstance(update, TextDelta) for update in batch):
                    return

    asyncio.run(stop_at_the_first_word())
    assert backend.answers[0].is_cancelled
    assert (conversation.messages[-1].message.text, conversation.messages[-1].is_partial) == ("One", True)


def test_request_contains_the_chat_options() -> None:
    backend = ScriptedBackend(text("Much."))
    run(backend, system_prompt="Be brief.", temperature=0.5, top_p=0.9, max_tokens=7, thinking="off")
    request = backend.requests[0]
    assert request.messages[0].text == "Be brief."
    assert (request.sampling.temperature, request.sampling.top_p, request.max_tokens) == (0.5, 0.9, 7)
    assert request.thinking.enabled is False


def test_failed_tool_call_ends_the_turn_of_the_demo_model() -> None:
    backend = ScriptedBackend(call("get_time", '{"timezone": "it"}'))
    model = BackendModel(name="demo", is_demo=True, supports_tools=True)
    conversation, updates = run(backend, model=model, uses_tools=True)
    assert isinstance(updates[-1], DemoToolFailed)
    assert conversation.messages[-1].message.role == "tool"
    assert len(backend.requests) == 1
