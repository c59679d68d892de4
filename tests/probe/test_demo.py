"""Findings and evidence of the demo model."""

from dataclasses import replace
from pathlib import Path

import msgspec

from mlxctl.formats.adapters import create_adapter
from mlxctl.library import demo, read_model
from mlxctl.library.fingerprint import fingerprint
from mlxctl.probe import NullObserver
from mlxctl.state.stores import QUESTIONS, CapabilityStore, Finding, ProbeRecord, to_capabilities

from .conftest import probed, target


class Listener(NullObserver):
    """Observer that records the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.num_tokens = 0

    def step_started(self, what: str) -> None:
        self.steps.append(what)

    def tokens_generated(self, num_tokens: int) -> None:
        self.num_tokens += num_tokens


def finding(record: ProbeRecord, question: str) -> Finding:
    found = record.finding(question)
    assert found is not None
    return found


def test_demo_model_answers_every_question(demo_record: ProbeRecord) -> None:
    assert [found.question for found in demo_record.findings] == list(QUESTIONS)
    assert demo_record.is_complete
    yes = {found.question for found in demo_record.findings if found.verdict == "yes"}
    assert yes == {
        "chat", "tools", "thinking", "thinking_toggle", "later_system", "tool_turns", "batch_safe",
        "trimmable_cache",
        "practical_context", "structured_output",
    }  # fmt: skip


def test_record_names_model_and_versions(demo_record: ProbeRecord) -> None:
    assert demo_record.fingerprint == fingerprint(demo.MODEL_DIR)
    assert {"mlxctl", "mlx", "mlx-lm", "mlx-vlm", "mlx-audio"} == demo_record.versions.keys()
    assert demo_record.duration_seconds > 0


def test_evidence_is_the_whole_exchange(demo_record: ProbeRecord) -> None:
    tools = finding(demo_record, "tools")
    sky, clock, without_tools = tools.exchanges
    assert tools.value == {"parser": "hermes_json", "delivery": "template"}
    assert sky.prompt.endswith(
        "What is the weather in Lisbon?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    assert (
        sky.output == '<tool_call>\n{"name": "check_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>'
    )
    assert (sky.parser_id, clock.parser_id, without_tools.parser_id) == ("hermes_json", "hermes_json", None)
    assert sky.num_tokens > 0
    assert "<tools>" not in without_tools.prompt


def test_thinking_is_found_with_its_switch(demo_record: ProbeRecord) -> None:
    (on,), (off,) = (
        finding(demo_record, "thinking").exchanges,
        finding(demo_record, "thinking_toggle").exchanges,
    )
    assert on.output.startswith("<think>")
    assert off.prompt.endswith("</think>\n\n")
    assert "<think>" not in off.output


def test_probed_capabilities_match_detection_from_files(demo_record: ProbeRecord) -> None:
    facts = read_model(demo.MODEL_DIR)
    known = create_adapter(facts, name="model", capabilities=to_capabilities(demo_record.findings))
    assert known.verdict == create_adapter(facts, name="model").verdict
    assert finding(demo_record, "tool_turns").value["adapter"] == msgspec.json.decode(
        msgspec.json.encode(known.verdict)
    )


def test_probed_model_is_skipped_unless_forced(
    demo_record: ProbeRecord, store: CapabilityStore, tmp_path: Path
) -> None:
    kept = store.save(demo_record)
    listener = Listener()
    (outcome,) = probed([target(demo.MODEL_DIR, "another name")], store, observer=listener)
    assert (outcome.record, outcome.was_known, listener.steps) == (kept, True, [])


def test_only_missing_or_failed_steps_run(demo_record: ProbeRecord, store: CapabilityStore) -> None:
    failed = Finding(question="batch_safe", verdict="unknown", reason="probing failed", has_failed=True)
    rest = tuple(found for found in demo_record.findings if found.question not in ("batch_safe", "chat"))
    store.save(replace(demo_record, findings=(*rest, failed)))
    listener = Listener()
    (outcome,) = probed([target(demo.MODEL_DIR)], store, observer=listener)
    assert listener.steps == ["loading", "conversation", "batches"]
    assert listener.num_tokens > 0
    assert outcome.record is not None
    assert outcome.record.is_complete
    assert {found.question: found.verdict for found in outcome.record.findings} == {
        found.question: found.verdict for found in demo_record.findings
    }


def test_timeout_is_a_failure_never_a_no(store: CapabilityStore) -> None:
    (outcome,) = probed([target(demo.MODEL_DIR)], store, deadline_seconds=0.001)
    assert outcome.record is not None
    failed = [found for found in outcome.record.findings if found.has_failed]
    assert {found.question for found in failed} == {
        "chat", "tools", "thinking", "thinking_toggle", "structured_output", "batch_safe",
    }  # fmt: skip
    assert {found.verdict for found in failed} == {"unknown"}
    assert "took longer than 0.001 s" in failed[0].reason
    assert not outcome.record.is_complete
