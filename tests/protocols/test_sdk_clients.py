"""The vendors' SDKs read what the encoders write, without a network."""

from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import httpx2
import msgspec
import openai
import pytest

from mlxctl.ir import StreamEvent, Usage, collect
from mlxctl.ir.errors import ContextTooLong, EngineDied, MlxctlError
from mlxctl.protocols import (
    PROTOCOLS,
    ErrorBody,
    Model,
    ModelPage,
    Parsed,
    anthropic_error,
    openai_error,
)

from .scripts import CUT_OFF, PLAIN, SCORED, SCRIPTS, STOPPED, THINKING, TWO_CALLS, started

MODELS = [
    Model.of(
        "org/tiny", created=1_700_000_000, context_length=4096, supports_tools=True, supports_thinking=True
    ),
    Model.of("demo", created=1_700_000_001, context_length=512, supports_tools=True, is_demo=True),
]
Answer = Callable[[httpx2.Request], httpx2.Response]


def transport(answer: Answer) -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(answer))


def openai_client(answer: Answer) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k",
        base_url="http://here/v1",
        http_client=transport(answer),
        max_retries=0,
        _strict_response_validation=True,
    )


def anthropic_client(answer: Answer) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k",
        base_url="http://here",
        http_client=transport(answer),
        max_retries=0,
        _strict_response_validation=True,
    )


def play(
    protocol: str, events: Sequence[StreamEvent], *, error: MlxctlError | None = None, **options: Any
) -> Answer:
    """Answer any request with the script and pings.

    The script may end with an error. `options` are the parser's.
    """
    parse: Callable[..., Parsed] = PROTOCOLS[protocol].parse

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked, shape = parse(request.read(), **options)
        encoder = started(PROTOCOLS[protocol].create_encoder(shape), shape)
        if not asked.stream:
            return httpx2.Response(
                200, headers={"Content-Type": "application/json"}, content=encoder.whole(collect(events))
            )
        pieces = [encoder.ping(), encoder.begin(Usage(num_prompt_tokens=12))]
        for event in events:
            pieces += [encoder.on_event(event), encoder.ping()]
        pieces.append(encoder.on_error(error) if error else encoder.finish())
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=b"".join(pieces))

    return answer


def refuse(body: ErrorBody) -> Answer:
    headers = {"Content-Type": "application/json"} | body.headers
    return lambda _: httpx2.Response(body.status, headers=headers, content=body.body)


def ask_chat(client: openai.OpenAI) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}])


def ask_messages(client: anthropic.Anthropic) -> anthropic.types.Message:
    return client.messages.create(model="tiny", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize("script", [PLAIN, THINKING, TWO_CALLS, STOPPED, SCORED])
def test_openai_reads_the_same_answer_whole_and_streamed(script: Sequence[StreamEvent]) -> None:
    whole = ask_chat(openai_client(play("chat", script))).choices[0]
    with openai_client(play("chat", script)).chat.completions.stream(
        model="tiny", messages=[{"role": "user", "content": "Hi"}], stream_options={"include_usage": True}
    ) as stream:
        streamed = stream.get_final_completion()
    choice = streamed.choices[0]
    assert choice.finish_reason == whole.finish_reason
    assert choice.message.content == (whole.message.content or "")
    assert [call.function.arguments for call in choice.message.tool_calls or ()] == [
        call.function.arguments for call in whole.message.tool_calls or () if call.type == "function"
    ]
    assert choice.logprobs == whole.logprobs
    assert streamed.usage is not None
    assert streamed.usage.total_tokens == 19


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_anthropic_reads_the_same_message_whole_and_streamed(script: Sequence[StreamEvent]) -> None:
    whole = ask_messages(anthropic_client(play("messages", script)))
    with anthropic_client(play("messages", script)).messages.stream(
        model="tiny", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        streamed = stream.get_final_message()
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in whole.content]
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.stop_sequence == whole.stop_sequence
    assert streamed.usage == whole.usage


def test_openai_finish_reasons() -> None:
    reasons = [
        ask_chat(openai_client(play("chat", script))).choices[0].finish_reason
        for script in (PLAIN, CUT_OFF, STOPPED, TWO_CALLS)
    ]
    assert reasons == ["stop", "length", "stop", "tool_calls"]


def test_anthropic_stop_reasons() -> None:
    reasons = [
        ask_messages(anthropic_client(play("messages", script))).stop_reason
        for script in (PLAIN, CUT_OFF, STOPPED, TWO_CALLS)
    ]
    assert reasons == ["end_turn", "max_tokens", "stop_sequence", "tool_use"]


def test_anthropic_input_counts_add_up_to_the_prompt() -> None:
    usage = ask_messages(anthropic_client(play("messages", PLAIN))).usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (8, 4, 7)


def test_the_openai_sdk_raises_when_a_stream_breaks() -> None:
    client = openai_client(play("chat", THINKING[:2], error=EngineDied("the engine died")))
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    with pytest.raises(openai.APIError, match="the engine died"):
        list(stream)


def test_the_openai_sdk_raises_when_an_answer_was_cut_off() -> None:
    client = openai_client(play("chat", CUT_OFF))
    request = client.chat.completions.stream(model="tiny", messages=[{"role": "user", "content": "Hi"}])
    with request as stream, pytest.raises(openai.LengthFinishReasonError):
        stream.get_final_completion()


def test_the_anthropic_sdk_raises_when_a_stream_breaks() -> None:
    client = anthropic_client(play("messages", THINKING[:2], error=EngineDied("the engine died")))
    request = client.messages.stream(model="tiny", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    with request as stream, pytest.raises(anthropic.APIStatusError, match="the engine died"):
        stream.get_final_message()


def test_openai_reads_the_same_completion_whole_and_streamed() -> None:
    asked: dict[str, Any] = {"model": "tiny", "prompt": "Once", "logprobs": 2}
    whole = openai_client(play("completions", SCORED)).completions.create(**asked).choices[0]
    # NOTE: the SDK's type for a chunk knows no null finish_reason, with which the real API's chunks come too.
    lenient = openai.OpenAI(
        api_key="k",
        base_url="http://here/v1",
        http_client=transport(play("completions", SCORED)),
        max_retries=0,
    )
    chunks = list(lenient.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.text == "é"
    assert chunks[0].choices[0].logprobs == whole.logprobs
    assert chunks[-2].choices[0].finish_reason == whole.finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 19


@pytest.mark.parametrize("asked", [{}, {"reasoning": {"summary": "auto"}}], ids=["thinking", "summary"])
@pytest.mark.parametrize("script", [*SCRIPTS.values(), SCORED], ids=[*SCRIPTS, "scored"])
def test_openai_reads_the_same_response_whole_and_streamed(
    script: Sequence[StreamEvent], asked: dict[str, Any]
) -> None:
    asked = {**asked, "model": "tiny", "input": "Hi", "top_logprobs": 2}
    whole = openai_client(play("responses", script, response_id="resp_1")).responses.create(**asked)
    client = openai_client(play("responses", script, response_id="resp_1"))
    events = list(client.responses.create(**asked, stream=True))
    streamed = events[-1].response
    helped = openai_client(play("responses", script, response_id="resp_1"))
    with helped.responses.stream(**asked) as stream:
        assert (
            "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            == whole.output_text
        )
    assert [item.to_dict() for item in streamed.output] == [item.to_dict() for item in whole.output]
    assert streamed.status == whole.status
    assert streamed.usage == whole.usage
    assert whole.usage is not None
    assert (
        whole.usage.input_tokens,
        whole.usage.input_tokens_details.cached_tokens,
        whole.usage.total_tokens,
    ) == (12, 4, 19)
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_openai_reads_the_request_fields_a_response_repeats() -> None:
    asked: dict[str, Any] = {
        "instructions": "Be kind.",
        "tools": [
            {"type": "function", "name": "lamp", "parameters": {"type": "object"}, "strict": True},
            {
                "type": "namespace",
                "name": "home",
                "description": "d",
                "tools": [{"type": "function", "name": "lamp"}],
            },
            {
                "type": "custom",
                "name": "patch",
                "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
            },
            {"type": "web_search"},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "lamp"}],
        },
        "metadata": {"a": "b"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "concise"},
        "max_output_tokens": 9,
        "temperature": 0.5,
        "prompt_cache_key": "key",
    }
    response = openai_client(play("responses", PLAIN)).responses.create(model="tiny", input="Hi", **asked)
    answered = response.to_dict()
    assert [tool.type for tool in response.tools] == ["function", "namespace", "custom"]
    for name in (
        "instructions",
        "tool_choice",
        "metadata",
        "text",
        "reasoning",
        "max_output_tokens",
        "temperature",
        "prompt_cache_key",
    ):
        assert answered[name] == asked[name]


def test_openai_response_statuses() -> None:
    responses = [
        openai_client(play("responses", script, response_id="resp_1")).responses.create(
            model="tiny", input="Hi"
        )
        for script in (PLAIN, CUT_OFF, STOPPED, TWO_CALLS)
    ]
    assert [response.status for response in responses] == [
        "completed",
        "incomplete",
        "completed",
        "completed",
    ]
    assert responses[1].incomplete_details is not None
    assert responses[1].incomplete_details.reason == "max_output_tokens"
    assert responses[1].completed_at is None
    assert responses[0].output_text == 'Good "morning"\n☀️'


def test_openai_reads_a_response_that_failed() -> None:
    client = openai_client(play("responses", THINKING[:2], error=EngineDied("the engine died")))
    *_, last = client.responses.create(model="tiny", input="Hi", stream=True)
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert (last.response.error.code, last.response.error.message) == ("server_error", "the engine died")
    assert [item.status for item in last.response.output if item.type == "reasoning"] == ["incomplete"]


def test_both_sdks_recognize_context_length_errors() -> None:
    error = ContextTooLong(num_prompt_tokens=9, context_length=8)
    with pytest.raises(openai.BadRequestError) as by_openai:
        ask_chat(openai_client(refuse(openai_error(error))))
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 9 tokens > 8 maximum"):
        ask_messages(anthropic_client(refuse(anthropic_error(error))))
    assert by_openai.value.code == "context_length_exceeded"


def test_both_sdks_list_the_models() -> None:
    listing = httpx2.Response(
        200, headers={"Content-Type": "application/json"}, content=msgspec.json.encode(ModelPage().of(MODELS))
    )
    by_openai = list(openai_client(lambda _: listing).models.list())
    by_anthropic = list(anthropic_client(lambda _: listing).models.list())
    assert [model.id for model in by_openai] == ["org/tiny", "demo"]
    assert [model.id for model in by_anthropic] == ["org/tiny", "demo"]
    assert by_anthropic[0].max_input_tokens == 4096


def test_both_sdks_retrieve_a_model() -> None:
    single = httpx2.Response(
        200, headers={"Content-Type": "application/json"}, content=msgspec.json.encode(MODELS[1])
    )
    assert openai_client(lambda _: single).models.retrieve("demo").owned_by == "mlxctl"
    card = anthropic_client(lambda _: single).models.retrieve("demo")
    assert card.capabilities is not None
    assert not card.capabilities.thinking.supported


def test_a_model_list_may_be_empty() -> None:
    listing = msgspec.to_builtins(ModelPage().of([]))
    assert listing == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
