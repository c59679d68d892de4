"""Messages bodies as GenerationRequest."""

import base64
import json
from typing import Any

import pytest

from mlxctl.ir import (
    ClearThinking,
    ClearToolUses,
    DocumentPart,
    GenerationRequest,
    ImagePart,
    Message,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ThinkingPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    ToolSpec,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS, anthropic_error
from mlxctl.protocols.anthropic.messages import parse_messages

from .scripts import MESSAGES_BODY

CLOCK = {"name": "clock", "description": "Tell the time", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "t1", "name": "clock", "input": {}}
PNG = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()},
}


def parse(**fields: Any) -> GenerationRequest:
    return PROTOCOLS["messages"].parse_alone(json.dumps(MESSAGES_BODY | fields).encode())


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1"} | fields


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


def test_minimal_body_uses_defaults() -> None:
    assert parse() == GenerationRequest(model="tiny", messages=(text_message("user", "Hi"),), max_tokens=64)


def test_null_equals_absent_in_every_field() -> None:
    optional = (
        "system tools tool_choice stop_sequences temperature top_p top_k thinking output_config "
        "output_format stream"
    )
    assert parse(**dict.fromkeys(optional.split())) == parse()


def test_anthropics_other_fields_are_accepted() -> None:
    foreign = {
        "metadata": {"user_id": "{}"},
        "cache_control": {"type": "ephemeral"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "service_tier": "auto",
        "betas": ["x"],
        "max_tokens": 10**15,
    }
    assert parse(**foreign).messages == parse().messages


def test_context_edits_are_translated_with_anthropics_defaults() -> None:
    tool_uses = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 5},
        "keep": {"type": "tool_uses", "value": 1},
        "clear_at_least": {"type": "input_tokens", "value": 9},
        "exclude_tools": ["memory"],
        "clear_tool_inputs": True,
    }
    kinds = ({"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}, tool_uses)
    assert parse(context_management={"edits": list(kinds)}).context_edits == (
        ClearThinking(num_kept=1),
        ClearToolUses(trigger_tokens=100_000, num_kept=3),
        ClearToolUses(
            trigger_calls=5,
            num_kept=1,
            min_cleared_tokens=9,
            kept_tools=frozenset({"memory"}),
            cleared_inputs=None,
        ),
    )
    keep_all = {"type": "clear_thinking_20251015", "keep": {"type": "all"}}
    assert parse(context_management={"edits": [keep_all]}).context_edits == ()


@pytest.mark.parametrize(
    ("edit", "param"),
    [
        ({"type": "compact_20260112"}, "context_management.edits[0].type"),
        ({"type": "shrink"}, "context_management.edits[0].type"),
        (
            {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": -1}},
            "context_management.edits[0].keep.value",
        ),
    ],
)
def test_unsupported_context_edit_is_refused_by_name(edit: dict[str, Any], param: str) -> None:
    error = refusal(context_management={"edits": [edit]})
    assert error.param == param
    assert param in str(error)


def test_toolset_that_the_client_runs_is_refused_by_name() -> None:
    error = refusal(tools=[CLOCK, {"type": "computer_toolset_20260801"}])
    assert error.param == "tools[1].type"


def test_string_equals_text_block_with_or_without_breakpoint() -> None:
    block = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    for role in ("user", "assistant", "system"):
        as_string = parse(system="Hi", messages=[{"role": role, "content": "Hi"}])
        as_blocks = parse(
            system=[block], messages=[{"role": role, "content": [block], "output_config": {"effort": "high"}}]
        )
        assert as_string == as_blocks


def test_result_string_equals_result_block() -> None:
    as_string = parse(messages=[assistant(CALL), user(result(content="noon"))])
    as_blocks = parse(
        messages=[assistant(CALL), user(result(content=[{"type": "text", "text": "noon"}], is_error=False))]
    )
    assert as_string == as_blocks


def test_system_message_may_follow_other_messages() -> None:
    request = parse(
        system="Be brief.",
        messages=[user({"type": "text", "text": "a"}), {"role": "system", "content": "Be kind."}],
    )
    assert [message.role for message in request.messages] == ["system", "user", "system"]


def test_sampling_fields_are_passed_on() -> None:
    request = parse(temperature=0.5, top_p=0.9, top_k=0, stop_sequences=["END"], stream=True)
    assert request.sampling == SamplingOptions(temperature=0.5, top_p=0.9, top_k=0)
    assert (request.stop, request.stream) == (("END",), True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *(
            (
                {"thinking": {"type": "enabled", "budget_tokens": 31999, "display": display}},
                ThinkingOptions(enabled=True, max_tokens=31999),
            )
            for display in ("omitted", "updates")
        ),
        ({"thinking": {"type": "disabled"}}, ThinkingOptions(enabled=False)),
        ({"thinking": {"type": "between_tools"}}, ThinkingOptions(enabled=False)),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            ThinkingOptions(effort="high"),
        ),
    ],
)
def test_thinking_options_are_translated(options: dict[str, Any], expected: ThinkingOptions) -> None:
    assert parse(**options).thinking == expected


def test_tools_and_tool_choices_are_translated() -> None:
    spec = ToolSpec(name="clock", description="Tell the time", parameters={"type": "object"})
    forced = parse(
        tools=[CLOCK], tool_choice={"type": "tool", "name": "clock", "disable_parallel_tool_use": True}
    )
    assert forced.tools == (spec,)
    assert forced.tool_choice == ToolChoice(mode="named", name="clock")
    assert not forced.parallel_tool_calls
    assert parse(tools=[CLOCK], tool_choice={"type": "any"}).tool_choice == ToolChoice(mode="required")
    assert parse(tools=[CLOCK], tool_choice={"type": "none"}).tool_choice == ToolChoice(mode="none")
    assert parse(tools=[CLOCK], tool_choice={"type": "auto"}).parallel_tool_calls


def test_thinking_and_a_forced_call_exclude_each_other() -> None:
    error = refusal(
        tools=[CLOCK], tool_choice={"type": "any"}, thinking={"type": "enabled", "budget_tokens": 1024}
    )
    assert error.param == "thinking.type"
    assert parse(
        tools=[CLOCK], tool_choice={"type": "any"}, thinking={"type": "adaptive"}
    ).tool_choice.is_forced


def test_hosted_tools_are_dropped_and_reported() -> None:
    body = MESSAGES_BODY | {
        "tools": [{"type": "web_search_20250305", "name": "web_search"}, CLOCK | {"type": "custom"}]
    }
    request, shape = parse_messages(json.dumps(body).encode())
    assert isinstance(request, GenerationRequest)
    assert [tool.name for tool in request.tools] == ["clock"]
    assert shape.dropped_tools == ("web_search_20250305",)


def test_deferred_tool_is_defined_at_its_reference() -> None:
    search = {"name": "search", "input_schema": {"type": "object"}}
    found = result(
        content=[{"type": "tool_reference", "tool_name": "clock"}, {"type": "text", "text": "Loaded."}]
    )
    request = parse(
        tools=[CLOCK | {"defer_loading": True}, search],
        messages=[assistant(CALL | {"name": "search"}), user(found)],
    )
    assert [tool.name for tool in request.tools] == ["search"]
    definition, note = (
        part.text for part in request.messages[1].tool_results[0].content if isinstance(part, TextPart)
    )
    assert json.loads(definition)["function"] == {
        "name": "clock",
        "description": "Tell the time",
        "parameters": {"type": "object"},
    }
    assert note == "Loaded."


def test_reference_to_an_offered_tool_is_its_name() -> None:
    found = result(content=[{"type": "tool_reference", "tool_name": "clock"}])
    request = parse(tools=[CLOCK], messages=[assistant(CALL), user(found)])
    assert request.messages[1].tool_results[0].text == "clock"


def test_results_and_text_of_one_turn_become_messages_in_order() -> None:
    turn = user(result(content=[PNG], is_error=True), {"type": "text", "text": "See?"}, PNG)
    messages = parse(messages=[assistant({"type": "text", "text": "One moment."}, CALL), turn]).messages
    image = ImagePart(data=b"\x89PNG", media_type="image/png")
    assert messages == (
        Message(
            role="assistant",
            parts=(TextPart(text="One moment."), ToolCallPart(id="t1", name="clock", arguments="{}")),
        ),
        Message(role="tool", parts=(ToolResultPart(call_id="t1", content=(image,), is_error=True),)),
        Message(role="user", parts=(TextPart(text="See?"), image)),
    )


def test_empty_result_is_accepted() -> None:
    messages = parse(messages=[assistant(CALL), user(result())]).messages
    assert [message.role for message in messages] == ["assistant", "tool"]
    assert messages[1].parts == (ToolResultPart(call_id="t1", content=()),)


def test_empty_user_message_has_no_parts() -> None:
    assert parse(messages=[user()]).messages == parse(messages=[{"role": "user", "content": ""}]).messages
    assert parse(messages=[user()]).messages == (Message(role="user", parts=()),)


def test_replayed_thinking_is_kept_and_redacted_is_dropped() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "zzz"},
    ]
    parts = parse(messages=[assistant(*blocks)]).messages[0].parts
    assert parts == (ThinkingPart(text="Hm.", signature="sig"),)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"output_config": {"format": {"type": "yaml"}}}, "output_config.format.type"),
        ({"messages": [user({"type": "audio", "source": {}})]}, "messages[0].content[0].type"),
        (
            {"messages": [user({"type": "image", "source": {"type": "url", "url": "x"}})]},
            "messages[0].content[0].source.url",
        ),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert str(error).startswith(param)


def test_last_assistant_message_is_the_start_of_the_answer() -> None:
    question = user({"type": "text", "text": "Hi"})
    started = parse(messages=[question, assistant({"type": "text", "text": "I am"})])
    assert started.continues_answer
    assert not parse(messages=[question, assistant(CALL)], tools=[CLOCK]).continues_answer
    assert not parse(messages=[question]).continues_answer


def test_documents_and_search_results_become_text() -> None:
    blocks = [
        {"type": "document", "title": "A", "context": "C", "source": {"type": "text", "data": "one"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "two"}]}},
        {
            "type": "search_result",
            "source": "http://x",
            "title": "B",
            "content": [{"type": "text", "text": "three"}],
        },
    ]
    asked = parse(messages=[user(*blocks)]).messages[0].text
    assert '<document title="A">\nC\none\n</document>' in asked
    assert "<document>\ntwo\n</document>" in asked
    assert '<search_result source="http://x" title="B">\nthree\n</search_result>' in asked
    answered = parse(messages=[user(), assistant(CALL), user(result(content=blocks))], tools=[CLOCK])
    assert answered.messages[-1].tool_results[0].text.replace("\n", "") == asked.replace("\n", "")


def document(**source: str) -> dict[str, Any]:
    return {"type": "document", "title": "r.pdf", "source": source}


def test_pdf_is_left_to_be_read_between_its_tags() -> None:
    pdf = document(type="base64", media_type="application/pdf", data="JVBERg==")
    (message,) = parse(messages=[user(pdf)]).messages
    assert message.parts == (
        TextPart(text='<document title="r.pdf">\n'),
        DocumentPart(data=b"%PDF"),
        TextPart(text="\n</document>\n"),
    )
    answered = parse(messages=[user(), assistant(CALL), user(result(content=[pdf]))], tools=[CLOCK])
    assert answered.messages[-1].has_documents


@pytest.mark.parametrize(
    ("source", "param"),
    [
        ({"type": "base64", "media_type": "application/msword", "data": "QUFB"}, "source.media_type"),
        ({"type": "url", "url": "https://example.org/r.pdf"}, "source"),
        ({"type": "file", "file_id": "f"}, "source"),
    ],
)
def test_unreadable_document_is_refused_in_a_question_and_noted_in_a_result(
    source: dict[str, str], param: str
) -> None:
    unread = document(**source)
    with pytest.raises(InvalidRequest, match="send") as caught:
        parse(messages=[user(unread)])
    assert caught.value.param == f"messages[0].content[0].{param}"
    answered = parse(messages=[user(), assistant(CALL), user(result(content=[unread]))], tools=[CLOCK])
    assert "was not read" in answered.messages[-1].tool_results[0].text


def test_tools_that_the_vendor_ran_become_calls_and_results() -> None:
    used = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "title": "T", "url": "u", "encrypted_content": "zz"}],
    }
    text = {"type": "text", "text": "Found."}
    messages = parse(messages=[user({"type": "text", "text": "Hi"}), assistant(used, found, text)]).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1].tool_calls[0].name == "web_search"
    assert json.loads(messages[2].tool_results[0].text) == [
        {"type": "web_search_result", "title": "T", "url": "u"}
    ]
    assert messages[3].text == "Found."


def test_marks_of_the_vendors_service_leave_its_summary_and_advice() -> None:
    summary = {"type": "compaction", "content": "They met.", "encrypted_content": "zz"}
    asked = {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}}
    advice = {
        "type": "advisor_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "advisor_result", "text": "Wait."},
    }
    listing = {"type": "mcp_tool_listing", "mcp_server_name": "x", "tools": []}
    fallback = {"type": "fallback", "to": {"model": "m"}, "trigger": None}
    messages = parse(messages=[assistant(summary, listing, asked, advice, fallback)]).messages
    assert [message.role for message in messages] == ["assistant", "tool"]
    assert messages[0].text.endswith("They met.")
    assert "Wait." in messages[1].tool_results[0].text


@pytest.mark.parametrize(
    ("kind", "name", "required"),
    [
        ("bash_20250124", "bash", []),
        ("text_editor_20250728", "str_replace_based_edit_tool", ["command", "path"]),
        ("text_editor_20250124", "str_replace_editor", ["command", "path"]),
        ("memory_20250818", "memory", ["command"]),
        ("computer_20251124", "computer", ["action"]),
    ],
)
def test_client_run_tools_have_their_published_schema(kind: str, name: str, required: list[str]) -> None:
    tool = {"type": kind, "name": name, "display_width_px": 800, "display_height_px": 600}
    request, shape = parse_messages(json.dumps(MESSAGES_BODY | {"tools": [tool]}).encode())
    assert isinstance(request, GenerationRequest)
    (spec,) = request.tools
    assert (spec.name, spec.parameters["required"], bool(spec.description)) == (name, required, True)
    assert shape.dropped_tools == ()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"thread": {"type": "continue", "previous_message_id": "msg_1"}}, "thread.type"),
        ({"container": "c1"}, "container"),
        ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}, "mcp_servers"),
        ({"compaction": {"type": "summarize"}}, "compaction"),
        ({"tools": [{"name": "clock"}]}, "tools[0].input_schema"),
    ],
)
def test_fields_of_the_vendors_service_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param


def test_thread_error_has_the_code_that_clients_handle() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(thread={"type": "continue", "previous_message_id": "msg_1"})
    body = json.loads(anthropic_error(caught.value, request_id="req_1").body)
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert body["request_id"] == "req_1"
