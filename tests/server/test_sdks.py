"""The vendors' SDKs with strict validation, in their own types."""

import json
from collections.abc import Iterator

import anthropic
import openai
import pytest
from anthropic.types import (
    MessageParam,
    ThinkingBlock,
    ThinkingConfigEnabledParam,
    ThreadFingerprintMismatchError,
    ThreadNotFoundError,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlock,
)
from anthropic.types.beta import BetaMessage, BetaToolUseBlock
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.responses import (
    FunctionToolParam,
    Response,
    ResponseFunctionToolCall,
    ResponseInputParam,
    ResponseReasoningItem,
)

from .process import ServerProcess

MODEL = "mlxctl-demo"
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
FLAT_TOOL: FunctionToolParam = {
    "type": "function", "name": "get_weather", "description": "Get the weather of a city",
    "parameters": SCHEMA, "strict": False,
}  # fmt: skip
CHAT_TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": SCHEMA},
}
ANTHROPIC_TOOL: ToolParam = {
    "name": "get_weather",
    "description": "Get the weather of a city",
    "input_schema": SCHEMA,
}
THINKING: ThinkingConfigEnabledParam = {"type": "enabled", "budget_tokens": 1024}
QUESTION = "What is the weather in Lisbon?"
RESULT = "21 degrees and sunny"


@pytest.fixture(scope="module")
def openai_sdk(demo_server: ServerProcess) -> Iterator[openai.OpenAI]:
    url = f"{demo_server.url}/v1"
    with openai.OpenAI(
        base_url=url, api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_sdk(demo_server: ServerProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=demo_server.url, api_key="unused", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def respond(
    client: openai.OpenAI, prompt: str | ResponseInputParam, previous: str | None, *, streams: bool
) -> Response:
    """Return a response, whole or from the last event of its stream."""
    if not streams:
        return client.responses.create(
            model=MODEL,
            input=prompt,
            previous_response_id=previous,
            tools=[FLAT_TOOL],
            temperature=0,
            max_output_tokens=300,
        )
    *_, last = client.responses.create(
        model=MODEL,
        input=prompt,
        previous_response_id=previous,
        tools=[FLAT_TOOL],
        temperature=0,
        max_output_tokens=300,
        stream=True,
    )
    assert last.type == "response.completed"
    return last.response


@pytest.mark.parametrize("streams", [False, True])
def test_a_chain_of_responses_calls_a_tool_and_takes_its_result(
    openai_sdk: openai.OpenAI, streams: bool
) -> None:
    first = respond(openai_sdk, QUESTION, None, streams=streams)
    (call,) = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Lisbon"})
    output: ResponseInputParam = [{"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
    second = respond(openai_sdk, output, first.id, streams=streams)
    assert "21" in second.output_text
    assert second.previous_response_id == first.id
    third = respond(openai_sdk, "Hello!", second.id, streams=streams)
    assert third.usage is not None
    assert second.usage is not None
    assert third.usage.input_tokens > second.usage.input_tokens


def test_response_streams_reasoning(openai_sdk: openai.OpenAI) -> None:
    events = list(
        openai_sdk.responses.create(
            model=MODEL,
            input="Hello!",
            reasoning={"effort": "high", "summary": "auto"},
            temperature=0,
            max_output_tokens=200,
            stream=True,
        )
    )
    thought = "".join(
        event.delta for event in events if event.type == "response.reasoning_summary_text.delta"
    )
    assert events[-1].type == "response.completed"
    (reasoning,) = [item for item in events[-1].response.output if isinstance(item, ResponseReasoningItem)]
    assert thought == "".join(part.text for part in reasoning.summary) != ""


def test_streamed_chat_call_and_its_result(openai_sdk: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    name = arguments = call_id = ""
    for chunk in openai_sdk.chat.completions.create(
        model=MODEL, messages=messages, tools=[CHAT_TOOL], temperature=0, max_tokens=300, stream=True
    ):
        for delta in chunk.choices[0].delta.tool_calls or []:
            call_id = delta.id or call_id
            if delta.function is not None:
                name += delta.function.name or ""
                arguments += delta.function.arguments or ""
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Lisbon"})
    messages += [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            ],
        },
        {"role": "tool", "tool_call_id": call_id, "content": RESULT},
    ]
    answer = openai_sdk.chat.completions.create(
        model=MODEL, messages=messages, tools=[CHAT_TOOL], temperature=0, max_tokens=300
    )
    assert "21" in (answer.choices[0].message.content or "")


@pytest.mark.parametrize("streams", [False, True])
def test_thinking_and_call_can_be_replayed_with_the_result(
    anthropic_sdk: anthropic.Anthropic, streams: bool
) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": QUESTION}]

    def answer() -> anthropic.types.Message:
        create, greedy = anthropic_sdk.messages.create, {"temperature": 0}
        if not streams:
            return create(
                model=MODEL,
                max_tokens=2000,
                messages=messages,
                tools=[ANTHROPIC_TOOL],
                thinking=THINKING,
                extra_body=greedy,
            )
        with anthropic_sdk.messages.stream(
            model=MODEL,
            max_tokens=2000,
            messages=messages,
            tools=[ANTHROPIC_TOOL],
            thinking=THINKING,
            extra_body=greedy,
        ) as stream:
            return stream.get_final_message()

    first = answer()
    (thought,) = [block for block in first.content if isinstance(block, ThinkingBlock)]
    (call,) = [block for block in first.content if isinstance(block, ToolUseBlock)]
    assert thought.thinking
    assert thought.signature
    assert (call.name, call.input, first.stop_reason) == ("get_weather", {"city": "Lisbon"}, "tool_use")
    result: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = answer()
    assert second.stop_reason == "end_turn"
    assert "21" in "".join(block.text for block in second.content if block.type == "text")


@pytest.mark.parametrize("streams", [False, True])
def test_thread_sends_only_new_messages(anthropic_sdk: anthropic.Anthropic, streams: bool) -> None:
    thread = anthropic_sdk.beta.messages.thread(
        model=MODEL, max_tokens=300, tools=[ANTHROPIC_TOOL], system="Be brief.", extra_body={"temperature": 0}
    )

    def send(content: str | list[ToolResultBlockParam]) -> BetaMessage:
        if not streams:
            return thread.send({"role": "user", "content": content})
        with thread.stream({"role": "user", "content": content}) as stream:
            return stream.get_final_message()

    first = send(QUESTION)
    (call,) = [block for block in first.content if isinstance(block, BetaToolUseBlock)]
    second = send([{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}])
    assert thread.previous_message_id == second.id
    assert "21" in "".join(block.text for block in second.content if block.type == "text")
    whole = anthropic_sdk.beta.messages.create(
        model=MODEL,
        max_tokens=300,
        tools=[ANTHROPIC_TOOL],
        system="Be brief.",
        messages=thread.messages[:-1],
        extra_body={"temperature": 0},
    )
    assert num_prompt_tokens(second) == num_prompt_tokens(whole)
    answers = [
        [block.model_dump(exclude={"parsed_output"}) for block in one.content] for one in (second, whole)
    ]
    assert answers[0] == answers[1]


def num_prompt_tokens(message: BetaMessage) -> int:
    return message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_thread_error_has_the_sdks_class(anthropic_sdk: anthropic.Anthropic) -> None:
    first = anthropic_sdk.beta.messages.create(
        model=MODEL,
        max_tokens=1,
        messages=[{"role": "user", "content": "Hello!"}],
        thread={"type": "create"},
    )
    for message_id, fields, error in (
        ("msg_gone", {}, ThreadNotFoundError),
        (first.id, {"system": "Be brief."}, ThreadFingerprintMismatchError),
        (first.id, {"tools": [ANTHROPIC_TOOL]}, ThreadFingerprintMismatchError),
    ):
        with pytest.raises(error):
            anthropic_sdk.beta.messages.create(
                model=MODEL,
                max_tokens=1,
                messages=[{"role": "user", "content": "Go on."}],
                thread={"type": "continue", "previous_message_id": message_id},
                extra_body=fields,
            )


def test_tokens_of_a_response_are_counted_before_it(openai_sdk: openai.OpenAI) -> None:
    counted = openai_sdk.responses.input_tokens.count(model=MODEL, input=QUESTION, tools=[FLAT_TOOL])
    made = openai_sdk.responses.create(model=MODEL, input=QUESTION, tools=[FLAT_TOOL], max_output_tokens=1)
    assert made.usage is not None
    assert counted.input_tokens == made.usage.input_tokens


def test_stored_conversation_is_compacted_without_input(openai_sdk: openai.OpenAI) -> None:
    first = openai_sdk.responses.create(model=MODEL, input="Hello!")
    raw = openai_sdk.responses.with_raw_response.compact(model=MODEL, previous_response_id=first.id)
    kept, summary = json.loads(raw.text)["output"]
    assert (kept["content"][0]["text"], summary["type"]) == ("Hello!", "compaction")
    with pytest.raises(openai.BadRequestError, match="input is missing"):
        openai_sdk.responses.compact(model=MODEL)


def test_compaction_without_generation_is_refused(openai_sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="generate must be true or left out"):
        openai_sdk.responses.compact(model=MODEL, input="Hi", extra_body={"generate": False})


def test_compacted_conversation_is_continued(openai_sdk: openai.OpenAI) -> None:
    first = openai_sdk.responses.create(model=MODEL, input="Hello!")
    # The SDK's type of output items has no message of the user, though its documentation says that they come.
    raw = openai_sdk.responses.with_raw_response.compact(
        model=MODEL, previous_response_id=first.id, input="Who are you?"
    )
    *kept, summary = json.loads(raw.text)["output"]
    assert [item["content"][0]["text"] for item in kept] == ["Hello!", "Who are you?"]
    assert summary["type"] == "compaction"
    items = [*kept, summary, {"role": "user", "content": "Go on."}]
    answer = openai_sdk.responses.create(model=MODEL, input=items)
    assert (answer.status, bool(answer.output)) == ("completed", True)
    foreign = summary | {"encrypted_content": "gAAAAA"}
    with pytest.raises(openai.BadRequestError, match="not made by this server"):
        openai_sdk.responses.create(model=MODEL, input=[*kept, foreign])
