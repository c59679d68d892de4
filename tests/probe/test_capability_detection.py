"""What a model does decides what is found, whatever its files say; nothing that went wrong becomes a no."""

import shutil
from pathlib import Path

import pytest

from mlxctl.adapters import create_adapter
from mlxctl.ir import GenerationRequest, text_message
from mlxctl.models import read_model
from mlxctl.probe.questions import TOOL_QUESTIONS
from mlxctl.stores import CapabilityStore, Finding, ProbeRecord, to_capabilities
from tests import tiny_models

from .conftest import probed, target
from .scripted_engine import Script, ScriptedEngine

PLAIN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES = '<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
MISTRAL = '[TOOL_CALLS]{name}[ARGS]{{"city": "{city}"}}'
TOOL_CODE = "```tool_code\n{name}(city='{city}')\n```"
INJECTED = "You can call these tools"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Qwen3 by all its files."""
    return Path(shutil.copytree(tiny_models.model("qwen3"), tmp_path / "x"))


@pytest.fixture
def plain_model(model: Path) -> Path:
    """The same with a template that knows neither tools nor thinking."""
    (model / "chat_template.jinja").write_text(PLAIN_TEMPLATE)
    return model


def caller(format_: str, *, only_if: str = "") -> Script:
    """A model that calls whatever tool is on offer in this format, if its prompt has this text."""

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
    found = record_of(model, script, store).finding(question)
    assert found is not None
    return found


def test_a_call_in_the_familys_format_is_its_own(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, caller(HERMES), store)
    assert (found.verdict, found.value) == ("yes", {"parser": "hermes_json", "delivery": "template"})
    assert found.reason == "2 of 2 right, offered by the chat template; in its own format"


def test_a_foreign_format_is_found_by_trying_all_and_then_served(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, caller(MISTRAL), store)
    found = record.finding("tools")
    assert found is not None
    assert found.value == {"parser": "mistral", "delivery": "template"}
    assert found.reason.endswith("in a format found by trying all; its files say hermes_json")
    serving = create_adapter(read_model(model), name="x", capabilities=to_capabilities(record.findings))
    assert (serving.verdict.tool_parser_id, serving.verdict.tool_delivery) == ("mistral", "template")


def test_tools_go_into_the_system_prompt_where_the_template_has_no_place(
    plain_model: Path, store: CapabilityStore
) -> None:
    found = finding_of(plain_model, caller(HERMES, only_if=INJECTED), store)
    assert found.value == {"parser": "hermes_json", "delivery": "injected"}
    assert all(INJECTED in exchange.prompt for exchange in found.exchanges if exchange.parser_id)


def test_tools_go_into_the_system_prompt_where_the_template_offers_them_in_vain(
    model: Path, store: CapabilityStore
) -> None:
    record = record_of(model, caller(HERMES, only_if=INJECTED), store)
    capabilities = to_capabilities(record.findings)
    assert (capabilities.tools, capabilities.tool_delivery) == (True, "injected")
    serving = create_adapter(read_model(model), name="x", capabilities=capabilities)
    request = GenerationRequest(
        model="x", messages=(text_message("user", "Hi"),), tools=(TOOL_QUESTIONS[0].tool,)
    )
    prompt = serving.vocabulary.decode(serving.prepare_input(request).token_ids)
    assert INJECTED in prompt


def test_a_format_of_its_own_is_found_where_tools_are_injected(
    plain_model: Path, store: CapabilityStore
) -> None:
    found = finding_of(plain_model, caller(TOOL_CODE), store)
    assert (found.verdict, found.value) == ("yes", {"parser": "gemma", "delivery": "injected"})


def test_a_format_counts_only_if_the_model_still_calls_when_it_is_asked_for_it(
    plain_model: Path, store: CapabilityStore
) -> None:
    """The format decides how an injected offer is worded."""
    found = finding_of(plain_model, caller(TOOL_CODE, only_if="<tool_call>"), store)
    assert found.verdict == "unknown"


def test_who_thinks_for_long_before_calling_gets_the_room(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, caller("<think>\n" + "hm " * 300 + "\n</think>\n\n" + HERMES), store)
    assert (found.verdict, found.value["parser"]) == ("yes", "hermes_json")


def test_a_right_call_beside_one_that_is_made_up_wants_a_third_question(
    model: Path, store: CapabilityStore
) -> None:
    def forgetful(prompt: str) -> str:
        call = HERMES.format(name="check_weather", city="Nairobi" if "Nairobi" in prompt else "Lisbon")
        return call if "<tools>" in prompt else "I do not know."

    found = finding_of(model, forgetful, store)
    assert (found.verdict, found.reason.split(",")[0]) == ("yes", "2 of 3 right")
    assert len(found.exchanges) == 4


def test_who_calls_the_same_when_nothing_is_offered_has_guessed(model: Path, store: CapabilityStore) -> None:
    def guesser(prompt: str) -> str:
        return (
            HERMES.format(name="show_time", city="Oslo")
            if "Oslo" in prompt
            else HERMES.format(name="check_weather", city="Lisbon")
        )

    found = finding_of(model, guesser, store)
    assert found.verdict == "no"
    assert "it calls what was not asked for" in found.reason


@pytest.mark.parametrize(
    "call",
    [
        HERMES.format(name="get_weather", city="Lisbon"),
        HERMES.format(name="check_weather", city="Paris"),
        MISTRAL.format(name="check_weather", city="Paris"),
    ],
)
def test_who_only_makes_calls_up_is_not_credited(model: Path, store: CapabilityStore, call: str) -> None:
    found = finding_of(model, lambda prompt: call, store)
    assert found.verdict == "no"
    assert found.reason.count("it calls what was not asked for") == 2


def test_who_calls_rightly_and_also_unasked_is_credited_and_that_is_told(
    model: Path, store: CapabilityStore
) -> None:
    calls = caller(HERMES)
    found = finding_of(
        model,
        lambda prompt: calls(prompt) if "<tools>" in prompt else HERMES.format(name="f", city="x"),
        store,
    )
    assert found.verdict == "yes"
    assert found.reason.endswith("; it also calls when nothing is offered")


def test_calls_that_no_parser_reads_are_unknown_and_their_tags_are_told(
    model: Path, store: CapabilityStore
) -> None:
    found = finding_of(model, caller("<my:call what={name}>{city}</my:call>"), store)
    assert found.verdict == "unknown"
    assert found.value == {
        "unknown_tags": ["<my:call what=check_weather>", "</my:call>", "<my:call what=show_time>"]
    }
    assert "it seems to call in a format that no parser reads" in found.reason


def test_calls_that_are_begun_and_cannot_be_read_are_not_silence(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, lambda prompt: '<tool_call>\n{"name": "sky', store)
    assert found.verdict == "no"
    assert "it begins calls that cannot be read" in found.reason


def test_who_is_still_thinking_at_the_limit_has_not_refused_to_call(
    model: Path, store: CapabilityStore
) -> None:
    found = finding_of(model, lambda prompt: "<think>" + "hm " * 4000, store)
    assert found.verdict == "unknown"
    assert "it was still thinking when it had to stop" in found.reason


def test_an_engine_that_dies_of_a_question_costs_that_answer_only(
    model: Path, store: CapabilityStore
) -> None:
    record = record_of(model, lambda prompt: None if "<tools>" in prompt else "I am a model.", store)
    tools, batch = record.finding("tools"), record.finding("batch_safe")
    assert tools is not None
    assert batch is not None
    assert (tools.verdict, tools.has_failed) == ("unknown", True)
    assert tools.reason == "asking failed: the engine died while it worked on this request"
    assert batch.verdict == "yes"
    again = record_of(model, caller(HERMES), store)
    assert to_capabilities(again.findings).tools


def test_an_engine_that_does_not_come_back_is_not_waited_for(model: Path, store: CapabilityStore) -> None:
    engine = ScriptedEngine(model, lambda prompt: None, num_lives=1)
    (outcome,) = probed([target(model, "x")], store, launcher=engine, deadline_seconds=0.2)
    assert outcome.record is not None
    reasons = {finding.reason for finding in outcome.record.findings if finding.has_failed}
    assert "asking failed: the engine died and did not come back" in reasons
    assert not outcome.record.is_complete


def test_thinking_is_found_though_the_template_says_nothing_of_it(
    plain_model: Path, store: CapabilityStore
) -> None:
    record = record_of(plain_model, lambda prompt: "<think>\nHm.\n</think>\n\nTwenty-one.", store)
    thinking, toggle = record.finding("thinking"), record.finding("thinking_toggle")
    assert thinking is not None
    assert toggle is not None
    assert (thinking.verdict, thinking.value) == ("yes", {"parser": "think_tag"})
    assert (toggle.verdict, toggle.reason) == ("no", "its prompt is the same with thinking on and off")


def test_a_model_that_always_thinks_cannot_be_switched(model: Path, store: CapabilityStore) -> None:
    record = record_of(model, lambda prompt: "<think>\nHm.\n</think>\n\nTwenty-one.", store)
    assert verdicts(record) == ("yes", "no")
    assert record.finding("thinking_toggle").reason == "it also thinks when told not to"


def test_a_model_that_thinks_only_when_told_to_can_be_switched(model: Path, store: CapabilityStore) -> None:
    def answer(prompt: str) -> str:
        return "Twenty-one." if "</think>" in prompt else "<think>\nHm.\n</think>\n\nTwenty-one."

    assert verdicts(record_of(model, answer, store)) == ("yes", "yes")


def test_thinking_that_the_template_offers_and_that_was_not_seen_is_unknown(
    model: Path, store: CapabilityStore
) -> None:
    record = record_of(model, lambda prompt: "Twenty-one.", store)
    assert verdicts(record) == ("unknown", "unknown")
    assert record.finding("thinking").reason == "its template offers it, but it did not think in 2 answers"
    # It is served as its template says: a thought about something harder is still read as one.
    assert create_adapter(
        read_model(model), name="x", capabilities=to_capabilities(record.findings)
    ).supports_thinking


def test_an_answer_behind_an_opened_thought_is_no_thought(model: Path, store: CapabilityStore) -> None:
    """A template that opens the thought itself makes everything behind it look like one."""
    opening = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    (model / "chat_template.jinja").write_text(PLAIN_TEMPLATE.rsplit("{% if add", 1)[0] + opening)

    assert verdicts(record_of(model, lambda prompt: "Twenty-one.", store)) == ("unknown", "unknown")


def test_random_weights_under_a_template_that_offers_thinking_are_not_said_to_think(
    store: CapabilityStore,
) -> None:
    (outcome,) = probed([target(tiny_models.model("qwen3"), "x")], store)
    assert outcome.record is not None
    assert "yes" not in verdicts(outcome.record)


def test_a_hard_question_is_asked_before_thinking_is_given_up(model: Path, store: CapabilityStore) -> None:
    record = record_of(
        model, lambda prompt: "<think>\nHm.\n</think>\n\n3 h." if "train" in prompt else "Twenty-one.", store
    )
    assert verdicts(record)[0] == "yes"


def verdicts(record: ProbeRecord) -> tuple[str, str]:
    """What was found on thinking, and on its switch."""
    thinking, toggle = record.finding("thinking"), record.finding("thinking_toggle")
    assert thinking is not None
    assert toggle is not None
    return thinking.verdict, toggle.verdict


def test_answers_that_are_too_short_prove_nothing_about_batches(model: Path, store: CapabilityStore) -> None:
    found = finding_of(model, lambda prompt: "", store, "batch_safe")
    assert (found.verdict, found.reason) == (
        "unknown",
        "an answer of 1 tokens is too short to compare; 4 are needed",
    )


def test_an_answer_without_an_end_or_without_words_is_no_proof_of_conversation(
    model: Path, store: CapabilityStore
) -> None:
    endless = finding_of(model, lambda prompt: "and so on " * 400, store, "chat")
    assert (endless.verdict, endless.reason) == ("unknown", "it had not come to an end after 256 tokens")


def test_json_that_fits_is_kept_to_and_json_that_does_not_is_not(
    model: Path, store: CapabilityStore, tmp_path: Path
) -> None:
    """A script cannot be held to anything: it says what it says."""
    fits = finding_of(
        model, lambda prompt: '{"city": "Paris", "continent": "Europe"}', store, "structured_output"
    )
    other = CapabilityStore(tmp_path / "other.sqlite")
    lacks = finding_of(model, lambda prompt: '{"city": "Paris"}', other, "structured_output")
    assert (fits.verdict, lacks.verdict) == ("yes", "no")
    assert fits.reason == "with constrained decoding; and also from a prompt alone"


def test_another_answer_in_company_is_not_batch_safe(model: Path, store: CapabilityStore) -> None:
    asked: list[str] = []

    def fickle(prompt: str) -> str:
        asked.append(prompt)
        return f"Answer {asked.count(prompt)}."

    found = finding_of(model, fickle, store, "batch_safe")
    assert (found.verdict, len(found.exchanges)) == ("no", 4)
