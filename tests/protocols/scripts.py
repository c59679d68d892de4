"""Event scripts, minimal requests for them, and readers of their streams."""

import json
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, TypeVar

from mlxctl.ir import (
    Finished,
    PromptProgress,
    SamplingParams,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    TopLogprob,
    Usage,
)
from mlxctl.protocols import PROTOCOLS, AnswerStart, Encoder, ReplyShape
from mlxctl.protocols.anthropic.messages import MessageEncoder, parse_messages
from mlxctl.protocols.openai.chat import ChatEncoder, parse_chat
from mlxctl.protocols.openai.completions import CompletionEncoder, parse_completion
from mlxctl.protocols.openai.responses.encoder import ResponseEncoder, ResponseShape, parse_response

EncoderType = TypeVar("EncoderType", bound=Encoder)

USAGE = Usage(num_prompt_tokens=12, num_cached_tokens=4, num_completion_tokens=7, num_thinking_tokens=3)
PLAIN: tuple[StreamEvent, ...] = (
    PromptProgress(num_processed=4, num_cached=4, num_prompt_tokens=12),
    TextDelta(text="Good"),
    TextDelta(text=' "morning"\n'),
    TextDelta(text="☀️"),
    Finished(reason="stop", usage=USAGE),
)
THINKING: tuple[StreamEvent, ...] = (
    ThinkingDelta(text="A greeting. "),
    ThinkingDelta(text="Answer it."),
    TextDelta(text="Hello!"),
    Finished(reason="stop", usage=USAGE),
)
TWO_CALLS: tuple[StreamEvent, ...] = (
    TextDelta(text="Let me look."),
    ToolCallStarted(index=0, id="call_1", name="weather"),
    ToolArgumentsDelta(index=0, json='{"city": '),
    ToolArgumentsDelta(index=0, json='"Paris"}'),
    ToolCallEnded(index=0),
    ToolCallStarted(index=1, id="call_2", name="clock"),
    ToolArgumentsDelta(index=1, json="{}"),
    ToolCallEnded(index=1),
    Finished(reason="tool_calls", usage=USAGE),
)
CUT_OFF: tuple[StreamEvent, ...] = (TextDelta(text="Once upon a"), Finished(reason="length", usage=USAGE))
STOPPED: tuple[StreamEvent, ...] = (
    TextDelta(text="one, two"),
    Finished(reason="stop_sequence", usage=USAGE, stop_sequence=", three"),
)
SCORED: tuple[StreamEvent, ...] = (
    TextDelta(
        text="é",
        logprobs=(
            TokenLogprob(
                token_id=7,
                token="é",
                data="é".encode(),
                logprob=-0.5,
                top=(
                    TopLogprob(token_id=7, token="é", data="é".encode(), logprob=-0.5),
                    TopLogprob(token_id=8, token="e", data=b"e", logprob=float("-inf")),
                ),
            ),
        ),
    ),
    Finished(reason="stop", usage=USAGE),
)
SCRIPTS = {
    "plain": PLAIN,
    "thinking": THINKING,
    "two_calls": TWO_CALLS,
    "cut_off": CUT_OFF,
    "stopped": STOPPED,
}

CHAT_BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES_BODY = {"model": "tiny", "input": "Hi"}
MESSAGES_BODY = {"model": "tiny", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}


def started(encoder: EncoderType, shape: ReplyShape) -> EncoderType:
    """Return an encoder whose answer has started."""
    sampling = shape.sampling if isinstance(shape, ResponseShape) else SamplingParams()
    encoder.start(AnswerStart(model=shape.model, sampling=sampling))
    return encoder


def encoder_of(protocol: str, body: dict[str, Any]) -> Encoder:
    """Return the started encoder of a body."""
    _, shape = PROTOCOLS[protocol].parse(json.dumps(body).encode())
    return started(PROTOCOLS[protocol].create_encoder(shape), shape)


def chat(**fields: Any) -> ChatEncoder:
    """Return the encoder of a minimal chat body plus `fields`."""
    _, shape = parse_chat(json.dumps(CHAT_BODY | fields).encode())
    return started(ChatEncoder(shape, response_id="chatcmpl-1", created=1_700_000_000), shape)


def completion(**fields: Any) -> CompletionEncoder:
    """Return the encoder of a minimal completions body plus `fields`."""
    _, shape = parse_completion(json.dumps({"model": "tiny", "prompt": "Once"} | fields).encode())
    return started(CompletionEncoder(shape, response_id="cmpl-1", created=1_700_000_000), shape)


def responses(**fields: Any) -> ResponseEncoder:
    """Return the encoder of a minimal responses body plus `fields`."""
    _, shape = parse_response(json.dumps(RESPONSES_BODY | fields).encode(), response_id="resp_1")
    return started(ResponseEncoder(shape, now=lambda: 1_700_000_000.5), shape)


def messages(**fields: Any) -> MessageEncoder:
    """Return the encoder of a minimal messages body plus `fields`."""
    _, shape = parse_messages(json.dumps(MESSAGES_BODY | fields).encode())
    return started(MessageEncoder(shape, response_id="msg_1"), shape)


def stream(encoder: Encoder, events: Iterable[StreamEvent]) -> bytes:
    """Return the whole stream of a script that ends."""
    return (
        encoder.begin(Usage(num_prompt_tokens=USAGE.num_prompt_tokens))
        + b"".join(map(encoder.on_event, events))
        + encoder.finish()
    )


def interleaved(encoder: Encoder, *scripts: Iterable[StreamEvent]) -> bytes:
    """Return the whole stream of several choices, interleaved event by event."""
    rounds = zip_longest(*scripts)
    streamed = [
        encoder.on_event(event, number)
        for turn in rounds
        for number, event in enumerate(turn)
        if event is not None
    ]
    return (
        encoder.begin(Usage(num_prompt_tokens=USAGE.num_prompt_tokens))
        + b"".join(streamed)
        + encoder.finish()
    )


def data_of(wire: bytes) -> list[Any]:
    """Return the JSON of each event with data.

    Without comments and the end mark.
    """
    lines = [line.removeprefix("data: ") for line in wire.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def joined_chat(chunks: list[Any]) -> dict[str, Any]:
    """Return the message that a chat client assembles from its chunks."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for delta in (chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]):
        message["content"] += delta.get("content", "")
        message["reasoning_content"] += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                message["tool_calls"].append(
                    {"id": call["id"], "type": call["type"], "function": dict(call["function"])}
                )
            else:
                message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message


def joined_blocks(events: list[Any]) -> list[Any]:
    """Return the blocks that a messages client assembles.

    Checks that one block is open at a time and each is stopped.
    """
    blocks: list[Any] = []
    is_open = False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"] | {"json": ""})
                is_open = True
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                _extend(blocks[-1], event["delta"])
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
    assert not is_open
    return [_closed(block) for block in blocks]


def _extend(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] += delta["signature"]
        case "input_json_delta":
            block["json"] += delta["partial_json"]
        case kind:
            raise AssertionError(f"no client knows {kind}")


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    arguments = block.pop("json")
    try:
        return block | {"input": json.loads(arguments)} if arguments else block
    except ValueError:
        return block


def joined_items(events: list[Any]) -> list[Any]:
    """Return the ended items of a response stream.

    Checks that deltas, parts and ends agree.
    """
    items: list[Any] = []
    streamed = ""
    for event in events:
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert event["output_index"] == len(items)
                streamed = ""
            case (
                "output_text.delta"
                | "reasoning_text.delta"
                | "reasoning_summary_text.delta"
                | "function_call_arguments.delta"
            ):
                assert event["output_index"] == len(items)
                streamed += event["delta"]
            case "output_text.done" | "reasoning_text.done" | "reasoning_summary_text.done":
                assert event["text"] == streamed
            case "content_part.done" | "reasoning_summary_part.done":
                assert event["part"]["text"] == streamed
            case "function_call_arguments.done":
                assert event["arguments"] == streamed
            case "output_item.done":
                assert streamed in _texts_of(event["item"])
                items.append(event["item"])
    return items


def _texts_of(item: dict[str, Any]) -> list[str]:
    parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
    return [part["text"] for part in parts] + [item.get("arguments", "")]
