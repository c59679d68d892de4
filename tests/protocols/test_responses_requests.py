"""Responses bodies: items, tools, choices and references."""

import json
import pickle
from pickle import PickleBuffer
from typing import Any

import pytest

from mlxctl.ir import (
    GenerationRequest,
    ImagePart,
    Message,
    StoredItem,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    ToolSpec,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS, Reference, StoredContext
from mlxctl.protocols.openai.responses.encoder import parse_response, parse_response_with
from mlxctl.protocols.thinking_signature import sign

from .scripts import RESPONSES_BODY, THINKING, responses, stream

LAMP = {
    "type": "function",
    "name": "lamp",
    "description": "A lamp",
    "parameters": {"type": "object"},
    "strict": True,
}
HOME = {
    "type": "namespace",
    "name": "home",
    "description": "At home",
    "tools": [LAMP, {"type": "file_search"}],
}


def parse(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["responses"].parse_alone(json.dumps(RESPONSES_BODY | fields).encode())


def messages(*items: object, **fields: Any) -> tuple[Message, ...]:
    return parse(input=list(items), **fields).messages


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


def message_item(role: str, content: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


def call(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": "lamp",
        "arguments": "{}",
        "status": "completed",
        **more,
    }


def result(call_id: str = "c1", output: object = "on") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def test_text_input_is_a_user_message() -> None:
    assert parse(input="Hi").messages == (text_message("user", "Hi"),)
    assert (
        messages(message_item("user", "Hi"))
        == messages(message_item("user", [{"type": "input_text", "text": "Hi"}]))
        == parse(input="Hi").messages
    )
    assert messages({"role": "user", "content": "Hi"}) == parse(input="Hi").messages


def test_empty_text_input_is_accepted() -> None:
    asked = parse(input="", max_output_tokens=1)
    assert asked.messages == (Message(role="user", parts=()),)
    assert asked.max_tokens == 1


def test_absent_token_limit_means_none() -> None:
    assert parse().max_tokens is None


def test_instructions_come_first_and_developer_is_system() -> None:
    asked = messages(
        message_item("developer", "Rules"),
        message_item("system", "More"),
        message_item("user", "Hi"),
        instructions="Be kind.",
    )
    assert [(message.role, message.text) for message in asked] == [
        ("system", "Be kind."),
        ("system", "Rules"),
        ("system", "More"),
        ("user", "Hi"),
    ]


def test_consecutive_assistant_items_become_one_message() -> None:
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    answer = {
        **message_item("assistant", [{"type": "output_text", "text": "Wait.", "annotations": []}]),
        "id": "msg_1",
        "status": "completed",
    }
    asked = messages(
        message_item("user", "Light!"),
        thought,
        answer,
        call("c1"),
        call("c2"),
        result("c1"),
        result("c2"),
        answer,
    )
    assert [message.role for message in asked] == ["user", "assistant", "tool", "tool", "assistant"]
    assert asked[1].parts == (
        ThinkingPart(text="Hm."),
        TextPart(text="Wait."),
        ToolCallPart(id="c1", name="lamp", arguments="{}"),
        ToolCallPart(id="c2", name="lamp", arguments="{}"),
    )
    assert asked[2].parts == (ToolResultPart(call_id="c1", content=(TextPart(text="on"),)),)


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (
            {
                "summary": [{"type": "summary_text", "text": "Sum"}],
                "content": None,
                "encrypted_content": None,
            },
            "Sum",
        ),
        (
            {
                "summary": [{"type": "summary_text", "text": "Sum"}],
                "content": [{"type": "reasoning_text", "text": "Hm"}],
            },
            "Hm",
        ),
        ({"summary": [], "encrypted_content": sign("Carried", carry=True)}, "Carried"),
        ({"summary": [], "encrypted_content": "of another server"}, ""),
    ],
)
def test_replayed_reasoning_is_read_from_any_field(reasoning: dict[str, Any], thinking: str) -> None:
    asked = messages(
        message_item("user", "Hi"),
        {"type": "reasoning", "id": "rs_1", **reasoning},
        message_item("assistant", "Hello"),
    )
    assert asked[1].thinking == thinking
    assert asked[1].text == "Hello"


def test_data_url_images_are_decoded_in_messages_and_results() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUFB", "detail": "high"}
    asked = messages(
        message_item("user", [image]), call(), result(output=[{"type": "input_text", "text": "see"}, image])
    )
    assert asked[0].parts == (ImagePart(data=b"AAA", media_type="image/png"),)
    assert asked[2].tool_results[0].content[1] == ImagePart(data=b"AAA", media_type="image/png")


def test_flat_and_namespaced_tools_are_offered() -> None:
    asked = parse(tools=[LAMP, HOME])
    assert asked.tools == (
        ToolSpec(name="lamp", description="A lamp", parameters={"type": "object"}, is_strict=True),
        ToolSpec(name="home__lamp", description="A lamp", parameters={"type": "object"}, is_strict=True),
    )


def test_namespaced_call_is_named_by_both_names() -> None:
    asked = messages(message_item("user", "Light!"), call(namespace="home"), result(), tools=[HOME])
    assert asked[1].tool_calls[0].name == "home__lamp"


@pytest.mark.parametrize("kind", ["apply_patch", "local_shell", "shell"])
def test_openai_tools_that_the_client_runs_are_refused_by_name(kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(tools=[LAMP, {"type": kind}])
    assert caught.value.param == "tools[1].type"


LS = {"type": "exec", "command": ["ls"], "env": {}}
PATCH = {"type": "delete_file", "path": "a.txt"}
CLIENT_TOOLS = {
    "local_shell answered by a function's result": (
        {"type": "local_shell_call", "call_id": "c1", "status": "completed", "action": LS},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        ("local_shell", LS, "a.txt", False),
    ),
    "local_shell": (
        {"type": "local_shell_call", "id": "c1", "call_id": "c1", "action": LS},
        {"type": "local_shell_call_output", "id": "c1", "output": "a.txt"},
        ("local_shell", LS, "a.txt", False),
    ),
    "shell": (
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls", "cat b", "top"]}},
        {"type": "shell_call_output", "call_id": "c1", "max_output_length": 9, "output": [
            {"stdout": "a.txt\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "no b", "outcome": {"type": "exit", "exit_code": 1}},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
        ]},
        ("shell", {"commands": ["ls", "cat b", "top"]}, "a.txt\nno b\n(exit code 1)\n(timed out)", False),
    ),
    "apply_patch": (
        {"type": "apply_patch_call", "call_id": "c1", "operation": PATCH},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
        ("apply_patch", PATCH, "The patch was applied.", False),
    ),
    "apply_patch that failed": (
        {"type": "apply_patch_call", "call_id": "c1", "operation": PATCH},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no a.txt"},
        ("apply_patch", PATCH, "no a.txt", True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLIENT_TOOLS)
def test_openai_tools_that_the_client_ran_are_shown_as_calls_and_results(case: str) -> None:
    item, output, (name, arguments, text, is_error) = CLIENT_TOOLS[case]
    asked = messages(message_item("user", "List files"), item, output)
    (shown,), (answer,) = asked[1].tool_calls, asked[2].tool_results
    assert (shown.id, shown.name, json.loads(shown.arguments)) == ("c1", name, arguments)
    assert (answer.call_id, answer.text, answer.is_error) == ("c1", text, is_error)


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "shell_call_output", "call_id": "c9", "output": []}, "input[1].call_id"),
        ({"type": "local_shell_call", "action": LS}, "input[1].call_id"),
        ({"type": "apply_patch_call", "call_id": "c1", "operation": "all"}, "input[1].operation"),
    ],
)
def test_wrong_item_of_such_a_tool_is_named(item: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        messages(message_item("user", "List files"), item)
    assert caught.value.param == param


def test_hosted_tools_and_items_are_dropped_and_reported() -> None:
    items = [message_item("user", "Hi"), {"type": "web_search_call", "id": "ws_1", "status": "completed"}]
    tools = [{"type": "web_search", "external_web_access": True}, HOME, {"type": "mcp", "tools": 5}]
    asked, shape = parse_response(json.dumps({"model": "tiny", "input": items, "tools": tools}).encode())
    assert isinstance(asked, GenerationRequest)
    assert shape.dropped_tools == ("web_search", "file_search", "mcp", "web_search_call")
    assert [tool.name for tool in asked.tools] == ["home__lamp"]
    assert len(asked.messages) == 1


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(mode="none")),
        ("required", ToolChoice(mode="required")),
        ({"type": "function", "name": "lamp"}, ToolChoice(mode="named", name="lamp")),
        (
            {"type": "function", "name": "lamp", "namespace": "home"},
            ToolChoice(mode="named", name="home__lamp"),
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "lamp"}]},
            ToolChoice(mode="required"),
        ),
    ],
)
def test_tool_choices_are_translated(choice: object, expected: ToolChoice) -> None:
    assert parse(tools=[LAMP, HOME], tool_choice=choice).tool_choice == expected


def test_allowed_tools_restrict_the_tools() -> None:
    allowed = {
        "type": "allowed_tools",
        "tools": [{"type": "function", "name": "lamp"}, {"type": "mcp", "server_label": "x"}],
    }
    assert [tool.name for tool in parse(tools=[LAMP, HOME], tool_choice=allowed).tools] == ["lamp"]


def test_sampling_and_reasoning_are_passed_on() -> None:
    asked = parse(
        temperature=0.5,
        top_p=0.9,
        seed=7,
        top_logprobs=3,
        reasoning={"effort": "low", "summary": "auto"},
        parallel_tool_calls=False,
        stream=True,
    )
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.seed) == (0.5, 0.9, 7)
    assert asked.sampling.num_top_logprobs == 3
    assert asked.thinking.effort == "low"
    assert not asked.parallel_tool_calls
    assert asked.stream


def test_effort_none_disables_thinking_and_include_adds_logprobs() -> None:
    assert parse(reasoning={"effort": "none"}).thinking.enabled is False
    assert parse(include=["message.output_text.logprobs"]).sampling.num_top_logprobs == 0
    assert parse().sampling.num_top_logprobs is None


def test_only_auto_truncation_drops_the_oldest_turns() -> None:
    assert parse(truncation="auto").context_overflow == "drop_oldest"
    assert parse(truncation="disabled").context_overflow is None
    assert parse().context_overflow is None


def test_null_and_unknown_fields_are_ignored() -> None:
    names = [
        "previous_response_id",
        "metadata",
        "user",
        "include",
        "truncation",
        "tools",
        "text",
        "reasoning",
        "conversation",
    ]
    assert (
        parse(**dict.fromkeys(names), client_metadata={"a": 1}, stream_options={"include_obfuscation": False})
        == parse()
    )


def test_references_are_returned() -> None:
    items = [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}, message_item("user", "Hi")]
    body = {"model": "tiny", "input": items, "previous_response_id": "resp_0"}
    refers, _ = parse_response(json.dumps(body).encode())
    assert refers == Reference(stream=False, previous_id="resp_0", item_ids=("msg_1", "msg_2"))


def test_request_without_references_is_parsed_at_once() -> None:
    body = {"model": "tiny", "input": "x" * 1_000_000}
    asked, shape = parse_response(json.dumps(body).encode())
    assert isinstance(asked, GenerationRequest)
    assert asked.messages[0].text == body["input"]
    apart: list[PickleBuffer] = []
    kept = pickle.dumps(shape, protocol=5, buffer_callback=apart.append)
    assert len(kept) < 10_000
    assert [memoryview(part).nbytes // 1000 for part in apart] == [1000]


def test_request_with_references_is_not_held_during_the_lookup() -> None:
    body = {"model": "tiny", "input": "x" * 1_000_000, "previous_response_id": "resp_0"}
    written = json.dumps(body).encode()
    outline = parse_response(written)
    assert outline[0] == Reference(stream=False, previous_id="resp_0")
    assert len(pickle.dumps(outline)) < 10_000
    earlier = (stored("msg_0", message_item("user", "Light!")),)
    asked, shape = parse_response_with(written, StoredContext(conversation=earlier))
    assert [message.text[:6] for message in asked.messages] == ["Light!", "xxxxxx"]
    assert len(shape.own_items) == 1


def stored(item_id: str, item: dict[str, Any]) -> StoredItem:
    return StoredItem(id=item_id, body=json.dumps(item | {"id": item_id}).encode())


def test_stored_items_are_put_where_they_are_referred_to() -> None:
    items = [{"type": "item_reference", "id": "msg_1"}, result()]
    body = {"model": "tiny", "input": items, "previous_response_id": "resp_0", "instructions": "Be kind."}
    earlier = (stored("msg_0", message_item("user", "Light!")), stored("fc_0", call()))
    asked, _ = parse_response_with(
        json.dumps(body).encode(),
        StoredContext(
            conversation=earlier, items={"msg_1": json.dumps(message_item("assistant", "Wait.")).encode()}
        ),
    )
    assert [message.role for message in asked.messages] == ["system", "user", "assistant", "tool"]
    assert asked.messages[2].text == "Wait."


def test_missing_stored_items_are_refused_by_name() -> None:
    gone = refusal(previous_response_id="resp_0")
    item = refusal(input=[{"type": "item_reference", "id": "msg_1"}])
    assert (gone.param, gone.code) == ("previous_response_id", "previous_response_not_found")
    assert item.param == "input[0].id"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert str(error).startswith(param)


def test_record_has_the_answer_and_the_new_input() -> None:
    encoder = responses(input=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}])
    stream(encoder, THINKING)
    assert encoder.record is not None
    asked = [json.loads(item.body) for item in encoder.record.input]
    assert asked[0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert asked[1]["content"] == [{"type": "output_text", "text": "Yes?", "annotations": []}]
    assert (
        [item["id"] for item in asked] == [item.id for item in encoder.record.input] == ["msg_1i0", "msg_1i1"]
    )
    assert [json.loads(item.body)["type"] for item in encoder.record.output] == ["reasoning", "message"]
    assert json.loads(encoder.record.body)["status"] == "completed"


def test_store_false_leaves_no_record() -> None:
    encoder = responses(store=False)
    stream(encoder, THINKING)
    assert not encoder.shape.stores
