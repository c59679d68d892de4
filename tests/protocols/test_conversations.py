"""Equal conversations from every protocol."""

import json
from typing import Any

from mlxctl.ir import Message
from mlxctl.protocols import PROTOCOLS

from .scripts import CHAT_BODY, MESSAGES_BODY

ARGUMENTS = '{"city":"Paris","days":[1,2.50]}'
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather and time?"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}},
            {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "noon"}]},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "You are welcome."},
    {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
]
MESSAGES = """[
    {"role": "user", "content": "Weather and time?"},
    {"role": "assistant", "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": %s},
        {"type": "tool_use", "id": "c2", "name": "clock", "input": {}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sunny"}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "noon"},
        {"type": "text", "text": "Thanks"}]},
    {"role": "assistant", "content": "You are welcome."},
    {"role": "user", "content": "And tomorrow?"}
]"""


RESPONSES = [
    {"role": "user", "content": "Weather and time?"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Let me look."}],
    },
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": ARGUMENTS},
    {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "You are welcome."},
    {"role": "user", "content": [{"type": "input_text", "text": "And tomorrow?"}]},
]


def read(protocol: str, body: dict[str, Any], messages: str) -> tuple[Message, ...]:
    head = json.dumps(body)[:-1]
    return PROTOCOLS[protocol].parse_alone(f'{head}, "messages": {messages}}}'.encode()).messages


def test_tool_conversation_is_equal_in_every_protocol() -> None:
    by_chat = read("chat", CHAT_BODY, json.dumps(CHAT))
    by_messages = read("messages", MESSAGES_BODY | {"system": "Be brief."}, MESSAGES % ARGUMENTS)
    body = {"model": "tiny", "input": RESPONSES, "instructions": "Be brief."}
    by_responses = PROTOCOLS["responses"].parse_alone(json.dumps(body).encode()).messages
    assert by_chat == by_messages == by_responses


def test_arguments_keep_the_clients_json_text() -> None:
    messages = read("messages", MESSAGES_BODY, MESSAGES % '{ "a" : 1.0 }')
    assert messages[1].tool_calls[0].arguments == '{ "a" : 1.0 }'
