"""Findings follow the model's answers, not its files.

Failures are never a no.
"""

import shutil
from pathlib import Path

import pytest

from mlxctl.formats.adapters import create_adapter
from mlxctl.ir import GenerationRequest, text_message
from mlxctl.library import read_model
from mlxctl.probe.questions import TOOL_QUESTIONS
from mlxctl.state.stores import CapabilityStore, Finding, ProbeRecord, to_capabilities
from tests import tiny_models

from .conftest import ask_only, probed, target
from .scripted_engine import Script, ScriptedEngine

PLAIN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES = '<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
MISTRAL = '[TOOL_CALLS]{name}[ARGS]{{"city": "{city}"}}'
TAGGED = "<tool_call>\n<function={name}>\n<parameter=city>\n{city}\n</parameter>\n</function>\n</tool_call>"
TOOL_CODE = "```tool_code\n{name}(city='{city}')\n```"
INJECTED = "You can call these tools"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model with Qwen3's files."""
    return Path(shutil.copytree(tiny_models.model("qwen3"), tmp_path / "x"))


@pytest.fixture
def plain_model(model: Path) -> Path:
    """Return the same with a template without tools and thinking."""
    (model / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def caller(format_: str, *, only_if: str = "") -> Script:
    """Script a model that calls any tool in this format.

    Only if its prompt contains `only_if`.
    """

    def answer(prompt: str) -> str:
        for question in TOOL_QUESTIONS:
            if question.tool.name in prompt and question.text in prompt and only_if in prompt:
                return format_.format(name=question.tool.name, city=question.value)
        return "I am a model."

    return answer


def record_of(model: Path, script: Script, store: CapabilityStore) -> ProbeRecord:
    (outcome,) = probed([target(model, "x")], store, launcher=ScriptedEngine(model, script))
    assert outcome.record is not None, outcome.problem
    return outcome.record


def finding_of(model: Path, script: Script, store: CapabilityStore, question: str = "tools") -> Finding:
    ask_only(store, model, question)
    found = record_of(model, script, store).finding(question)
    assert found is not None
    return found


def test_call_in_family_format_uses_own_parser(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, caller(HERMES), store)
    assert (found.verdict, found.value) == ("yes", {"parser": "hermes_json", "delivery": "template"})
    assert found.reason == "2 of 2 right, offered by the chat template; in its own format"


def test_foreign_call_format_is_found_and_served(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, caller(MISTRAL), store)
    found = record.finding("tools")
    assert found is not None
    assert found.value == {"parser": "mistral", "delivery": "template"}
    assert found.reason.endswith("in a format found by trying all parsers; its files say hermes_json")
    serving = create_adapter(read_model(model), name="x", capabilities=to_capabilities(record.findings))
    assert (serving.verdict.tool_parser_id, serving.verdict.tool_delivery) == ("mistral", "template")


def test_tools_are_injected_when_template_has_none(plain_model: Path, store: CapabilityStore) -> None:
    found = finding_of(plain_model, caller(HERMES, only_if=INJECTED), store)
    assert found.value == {"parser": "hermes_json", "delivery": "injected"}
    assert all(INJECTED in exchange.prompt for exchange in found.exchanges if exchange.parser_id)


def test_tools_are_injected_when_template_delivery_fails(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, caller(HERMES, only_if=INJECTED), store)
    capabilities = to_capabilities(record.findings)
    assert (capabilities.tools, capabilities.tool_delivery) == (True, "injected")
    serving = create_adapter(read_model(model), name="x", capabilities=capabilities)
    request = GenerationRequest(
        model="x", messages=(text_message("user", "Hi"),), tools=(TOOL_QUESTIONS[0].tool,)
    )
    prompt = serving.vocabulary.decode(serving.prepare_input(request).token_ids)
    assert INJECTED in prompt


def test_own_format_is_found_for_injected_tools(plain_model: Path, store: CapabilityStore) -> None:
    found = finding_of(plain_model, caller(TOOL_CODE), store)
    assert (found.verdict, found.value) == ("yes", {"parser": "gemma", "delivery": "injected"})


def test_injected_tools_take_the_format_that_the_model_follows(
    plain_model: Path, store: CapabilityStore
) -> None:
    def follower(prompt: str) -> str:
        # It calls with JSON in a tag sometimes, with a tag for each argument always.
        is_tagged = "<parameter=" in prompt
        form = TAGGED if is_tagged else HERMES
        follows = is_tagged or TOOL_QUESTIONS[0].text in prompt
        return caller(form, only_if=INJECTED)(prompt) if follows else "I do not know."

    ask_only(store, plain_model, "tools")
    record = record_of(plain_model, follower, store)
    found = record.finding("tools")
    assert found is not None
    assert found.value == {"parser": "qwen3_coder", "delivery": "injected"}
    assert found.reason.startswith("2 of 2 right, written into the system prompt; in the format qwen3_coder")
    serving = create_adapter(read_model(plain_model), name="x", capabilities=to_capabilities(record.findings))
    assert (serving.verdict.tool_parser_id, serving.verdict.tool_delivery) == ("qwen3_coder", "injected")


def test_format_counts_only_if_confirmed_by_the_serving_adapter(
    plain_model: Path, store: CapabilityStore
) -> None:
    """The format decides the wording of injected tools."""
    found = finding_of(plain_model, caller(TOOL_CODE, only_if="<tool_call>"), store)
    assert found.verdict == "unknown"


def test_long_thinking_before_a_call_gets_more_tokens(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, caller("<think>\n" + "hm " * 300 + "\n</think>\n\n" + HERMES), store)
    assert (found.verdict, found.value["parser"]) == ("yes", "hermes_json")


def test_undecided_calls_lead_to_a_third_question(model: Path, store: CapabilityStore) -> None:
    def forgetful(prompt: str) -> str:
        call = HERMES.format(name="check_weather", city="Nairobi" if "Nairobi" in prompt else "Lisbon")
        return call if "<tools>" in prompt else "I do not know."

    found = finding_of(model, forgetful, store)
    assert (found.verdict, found.reason.split(",")[0]) == ("yes", "2 of 3 right")
    assert len(found.exchanges) == 4


def test_same_call_without_tools_is_a_guess(model: Path, store: CapabilityStore) -> None:
    def guesser(prompt: str) -> str:
        return (
            HERMES.format(name="show_time", city="Oslo")
            if "Oslo" in prompt
            else HERMES.format(name="check_weather", city="Lisbon")
        )

    found = finding_of(model, guesser, store)
    assert found.verdict == "no"
    assert "it makes up calls" in found.reason


@pytest.mark.parametrize(
    "call",
    [
        HERMES.format(name="get_weather", city="Lisbon"),
        HERMES.format(name="check_weather", city="Paris"),
        MISTRAL.format(name="check_weather", city="Paris"),
    ],
)
def test_made_up_calls_do_not_count(model: Path, store: CapabilityStore, call: str) -> None:
    found = finding_of(model, lambda prompt: call, store)
    assert found.verdict == "no"
    assert found.reason.count("it makes up calls") == 2


def test_calls_without_tools_are_reported(model: Path, store: CapabilityStore) -> None:
    calls = caller(HERMES)
    found = finding_of(
        model,
        lambda prompt: calls(prompt) if "<tools>" in prompt else HERMES.format(name="f", city="x"),
        store,
    )
    assert found.verdict == "yes"
    assert found.reason.endswith("; it also calls when nothing is offered")


def test_unparsed_calls_are_unknown_with_their_tags(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, caller("<my:call what={name}>{city}</my:call>"), store)
    assert found.verdict == "unknown"
    assert found.value == {
        "unknown_tags": ["<my:call what=check_weather>", "</my:call>", "<my:call what=show_time>"]
    }
    assert "it seems to call in a format that no parser knows" in found.reason


def test_unparseable_calls_are_reported(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, lambda prompt: '<tool_call>\n{"name": "sky', store)
    assert found.verdict == "no"
    assert "it begins calls that cannot be parsed" in found.reason


def test_thinking_at_the_token_limit_is_unknown(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, lambda prompt: "<think>" + "hm " * 4000, store)
    assert found.verdict == "unknown"
    assert "it was still thinking at the token limit" in found.reason


def test_engine_death_fails_only_one_step(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, lambda prompt: None if "<tools>" in prompt else "I am a model.", store)
    tools, batch = record.finding("tools"), record.finding("batch_safe")
    assert tools is not None
    assert batch is not None
    assert (tools.verdict, tools.has_failed) == ("unknown", True)
    assert tools.reason == "probing failed: the engine died while it worked on this request"
    assert batch.verdict == "yes"
    again = record_of(model, caller(HERMES), store)
    assert to_capabilities(again.findings).tools


def test_engine_that_stays_down_fails_the_step(model: Path, store: CapabilityStore) -> None:
    engine = ScriptedEngine(model, lambda prompt: None, num_lives=1)
    (outcome,) = probed([target(model, "x")], store, launcher=engine, deadline_seconds=0.2)
    assert outcome.record is not None
    reasons = {finding.reason for finding in outcome.record.findings if finding.has_failed}
    assert "probing failed: the engine died and did not come back" in reasons
    assert not outcome.record.is_complete


def test_thinking_is_found_without_template_support(plain_model: Path, store: CapabilityStore) -> None:
    record = record_of(plain_model, lambda prompt: "<think>\nHm.\n</think>\n\nTwenty-one.", store)
    thinking, toggle = record.finding("thinking"), record.finding("thinking_toggle")
    assert thinking is not None
    assert toggle is not None
    assert (thinking.verdict, thinking.value) == ("yes", {"parser": "think_tag"})
    assert (toggle.verdict, toggle.reason) == ("no", "its prompt is the same with thinking on and off")


def test_model_that_always_thinks_has_no_switch(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, lambda prompt: "<think>\nHm.\n</think>\n\nTwenty-one.", store)
    assert verdicts(record) == ("yes", "no")
    assert record.finding("thinking_toggle").reason == "it also thinks when switched off"


def test_model_that_thinks_on_request_has_a_switch(model: Path, store: CapabilityStore) -> None:
    def answer(prompt: str) -> str:
        return "Twenty-one." if "</think>" in prompt else "<think>\nHm.\n</think>\n\nTwenty-one."

    assert verdicts(record_of(model, answer, store)) == ("yes", "yes")


def test_supported_thinking_without_thinking_is_unknown(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, lambda prompt: "Twenty-one.", store)
    assert verdicts(record) == ("unknown", "unknown")
    assert record.finding("thinking").reason == "its template offers it, but it did not think in 2 answers"
    # It is served as its template says: thinking in later answers is still parsed.
    assert create_adapter(
        read_model(model), name="x", capabilities=to_capabilities(record.findings)
    ).supports_thinking


def test_answer_after_opened_thinking_is_no_thinking(model: Path, store: CapabilityStore) -> None:
    """After an opening marker in the prompt, all text parses as thinking."""
    opening = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    (model / "chat_template.jinja").write_text(PLAIN_TEMPLATE.rsplit("{% if add", 1)[0] + opening)

    assert verdicts(record_of(model, lambda prompt: "Twenty-one.", store)) == ("unknown", "unknown")


def test_random_weights_do_not_count_as_thinking(store: CapabilityStore) -> None:
    model = tiny_models.model("qwen3")
    ask_only(store, model, "thinking", "thinking_toggle")
    (outcome,) = probed([target(model, "x")], store)
    assert outcome.record is not None
    assert "yes" not in verdicts(outcome.record)


def test_second_question_is_asked_before_thinking_is_unknown(model: Path, store: CapabilityStore) -> None:
    record = record_of(
        model, lambda prompt: "<think>\nHm.\n</think>\n\n3 h." if "train" in prompt else "Twenty-one.", store
    )
    assert verdicts(record)[0] == "yes"


def verdicts(record: ProbeRecord) -> tuple[str, str]:
    """Return the verdicts on thinking and its switch."""
    thinking, toggle = record.finding("thinking"), record.finding("thinking_toggle")
    assert thinking is not None
    assert toggle is not None
    return thinking.verdict, toggle.verdict


def test_short_answers_leave_batch_safety_unknown(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, lambda prompt: "", store, "batch_safe")
    assert (found.verdict, found.reason) == (
        "unknown",
        "an answer of 1 tokens is too short to compare; 4 are needed",
    )


def test_endless_or_empty_answer_does_not_prove_chat(model: Path, store: CapabilityStore) -> None:
    endless = finding_of(model, lambda prompt: "and so on " * 400, store, "chat")
    assert (endless.verdict, endless.reason) == ("unknown", "it had not ended after 256 tokens")


def test_only_fitting_json_counts_as_structured_output(
    model: Path, store: CapabilityStore, tmp_path: Path
) -> None:
    """A script cannot be constrained, so it shows both cases."""
    fits = finding_of(
        model, lambda prompt: '{"city": "Paris", "continent": "Europe"}', store, "structured_output"
    )
    other = CapabilityStore(tmp_path / "other.sqlite")
    lacks = finding_of(model, lambda prompt: '{"city": "Paris"}', other, "structured_output")
    assert (fits.verdict, lacks.verdict) == ("yes", "no")
    assert fits.reason == "with constrained decoding; and also from a prompt alone"


def test_different_answer_in_batch_is_not_batch_safe(model: Path, store: CapabilityStore) -> None:
    with_tools: list[str] = []

    def fickle(prompt: str) -> str:
        with_tools.append(prompt)
        return f"Answer {with_tools.count(prompt)}."

    found = finding_of(model, fickle, store, "batch_safe")
    assert (found.verdict, len(found.exchanges)) == ("no", 4)
