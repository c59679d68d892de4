"""Preempted rows continue with the tokens of an uninterrupted answer."""

from collections.abc import Callable
from pathlib import Path

import pytest
from llguidance import LLMatcher

from mlxctl.engine.speculation import draft_steps
from mlxctl.engine.speculation.policy import gate_store
from mlxctl.ir import CacheMode, Guidance, KVFormat, Repetition, SamplingParams, TextPart, ThinkingLimit
from mlxctl.ir.lora import LoraChoice, stack_digest
from mlxctl.ir.model_spec import DraftModelSpec, TextModelOptions
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.library.lora_files import read_lora
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import GREEDY
from tests.engine.speculation.test_speculation import OpenGate, Rehearsed
from tests.engine.stepped_engine import SteppedEngine
from tests.engine.vision_harness import noise, prepared
from tests.tiny_models.adapters import random_adapter
from tests.tiny_models.mtp_heads import with_mtp_head

# Plain attention, sliding window, short convolutions, linear attention with experts.
FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
PROMPT = [20 + place % 400 for place in range(90)]
NUM_TIMES = 2
URGENT = -10
PREEMPTING = SchedulerPolicy(max_rows=1, enable_preemption=True)
SEEDED = SamplingParams(
    temperature=1.0,
    top_p=0.9,
    presence_penalty=0.7,
    frequency_penalty=0.3,
    repetition_penalty=1.2,
    num_top_logprobs=3,
    repetition=Repetition(multiplier=2.0, allowed_length=1, num_last=32),
    seed=7,
)
# Rows with DRY have no drafts.
SEEDED_DRAFTS = SamplingParams(temperature=0.9, top_p=0.9, presence_penalty=0.7, num_top_logprobs=2, seed=7)
GRAMMAR = Guidance(grammar=LLMatcher.grammar_from_regex("[a-z ]*"))
THINKING = Guidance(
    thinking=ThinkingLimit(
        max_tokens=30, is_open=True, opener_ids=(21,), closer_ids=(40, 41), closing_ids=(30, 40, 41)
    )
)
KINDS = [(GREEDY, None), (SEEDED, None), (SEEDED, GRAMMAR), (SEEDED, THINKING)]


@pytest.mark.parametrize("family", FAMILIES)
def test_preempted_output_equals_uninterrupted_output(family: str) -> None:
    engine = SteppedEngine(family)
    engine.configure(PREEMPTING)
    for sampling, guidance in KINDS:
        alone = engine.submit(PROMPT, max_tokens=24, sampling=sampling, guidance=guidance)
        engine.run(lambda alone=alone: engine.is_done(alone))
        row = engine.submit(PROMPT, max_tokens=24, sampling=sampling, guidance=guidance)
        for number in range(NUM_TIMES):
            num_tokens = 9 * (number + 1)
            engine.run(lambda row=row, least=num_tokens: len(engine.tokens(row)) >= least)
            urgent = engine.submit([9, 8, 7, number], priority=URGENT)
            engine.run(lambda urgent=urgent: engine.is_done(urgent))
            assert not engine.is_done(row)
        engine.run(lambda row=row: engine.is_done(row))

        assert engine.tokens(row) == engine.tokens(alone)
        assert engine.scores(row) == engine.scores(alone)
    stats = engine.stats()
    assert stats.num_preemptions == stats.num_resumes == NUM_TIMES * len(KINDS)
    assert stats.num_preempted == stats.preempted_bytes == 0


@pytest.mark.parametrize("family", [*FAMILIES, "quantized"])
def test_preempted_rows_of_a_batch_continue_whether_their_caches_were_freed_or_not(family: str) -> None:
    engine = (
        SteppedEngine("qwen3", kv_format=KVFormat(bits=8, group_size=32))
        if family == "quantized"
        else SteppedEngine(family)
    )
    engine.configure(SchedulerPolicy(max_rows=3, enable_preemption=True))
    prompts = [[number + token_id for token_id in PROMPT[: 60 + number]] for number in range(3)]
    answers = [engine.submit(prompt, max_tokens=20, mode="off") for prompt in prompts]
    engine.run(lambda: engine.is_done(*answers))

    cases: list[tuple[CacheMode, bool]] = [("full", False), ("full", True), ("prefix", True), ("off", True)]
    for mode, is_freed in cases:
        rows = [engine.submit(prompt, max_tokens=20, mode=mode) for prompt in prompts]
        engine.run(lambda rows=rows: len(engine.tokens(rows[1])) >= 9)
        urgent = [engine.submit([9, 8, last], priority=URGENT) for last in (7, 6)]
        engine.run(lambda: engine.stats().num_preempted == 2)
        assert engine.stats().preempted_bytes > 0
        if is_freed:
            engine.memory.make_room(1 << 50)
            assert engine.stats().preempted_bytes == 0
        engine.run(lambda rows=rows, urgent=urgent: engine.is_done(*rows, *urgent))
        assert [engine.tokens(row) for row in rows] == [engine.tokens(row) for row in answers]
    assert engine.stats().num_resumes == 2 * len(cases)


def check_interruptions(engine: SteppedEngine, submit: Callable[[CacheMode], int]) -> list[int]:
    """Interrupt a row in two cache modes, and return its tokens.

    Its caches stay in memory or not. The tokens equal those of the uninterrupted answer.
    """
    engine.configure(PREEMPTING)
    alone = submit("full")
    engine.run(lambda: engine.is_done(alone))
    cases: list[tuple[CacheMode, bool]] = [("full", False), ("full", True), ("off", False), ("off", True)]
    for number, (mode, is_freed) in enumerate(cases):
        row = submit(mode)
        engine.run(lambda row=row: len(engine.tokens(row)) >= 9)
        urgent = engine.submit([9, 8, 7, number], priority=URGENT)
        engine.run(lambda: engine.stats().num_preempted == 1)
        if is_freed:
            engine.memory.make_room(1 << 50)
            assert engine.stats().preempted_bytes == 0
        engine.run(lambda row=row, urgent=urgent: engine.is_done(row, urgent))
        assert engine.tokens(row) == engine.tokens(alone)
    assert engine.stats().num_resumes == len(cases)
    return engine.tokens(alone)


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next"])
def test_preempted_row_with_adapter_equals_uninterrupted(family: str, tmp_path: Path) -> None:
    base = tiny_models.model(family)
    spec = read_lora(random_adapter(base, tmp_path, seed=1, size=0.2), name="one", base=base)
    engine = SteppedEngine(family)
    engine.mount(spec)
    choices = (LoraChoice(name="one"),)
    namespace = stack_digest([(spec.digest, 1.0)])
    plain = engine.submit(PROMPT, max_tokens=30)
    engine.run(lambda: engine.is_done(plain))

    def submit(mode: CacheMode) -> int:
        return engine.submit(PROMPT, max_tokens=30, mode=mode, adapters=choices, cache_namespace=namespace)

    assert check_interruptions(engine, submit) != engine.tokens(plain)


def test_preempted_row_with_image_equals_uninterrupted() -> None:
    model = tiny_models.trained("pixtral_colors")
    prompt = prepared(model, noise(1), TextPart(text="What color is this?"))
    engine = SteppedEngine("m", model=model)

    def submit(mode: CacheMode) -> int:
        return engine.submit(
            list(prompt.token_ids), max_tokens=30, mode=mode, sampling=SEEDED, images=list(prompt.images)
        )

    check_interruptions(engine, submit)


@pytest.fixture
def open_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_store, "SpeculationGate", OpenGate)


@pytest.mark.usefixtures("open_gate")
@pytest.mark.parametrize(
    ("family", "sampling"), [("qwen3", GREEDY), ("gemma3", SEEDED_DRAFTS), ("lfm2", SEEDED_DRAFTS)]
)
def test_preempted_row_with_drafts_equals_uninterrupted(
    family: str, sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_steps, "PromptLookup", Rehearsed)
    tokens = uninterrupted(SteppedEngine(family), sampling)
    monkeypatch.setattr(Rehearsed, "answers", {tuple(PROMPT): tokens})
    engine = SteppedEngine(family, settings=EngineSettings(speculation="lookup"))
    check_drafted_interruptions(engine, "lookup", sampling, tokens)


@pytest.mark.usefixtures("open_gate")
def test_preempted_row_with_draft_model_equals_uninterrupted() -> None:
    model = tiny_models.model("qwen3")
    options = TextModelOptions(draft=DraftModelSpec(path=model, weights_bytes=1))
    tokens = uninterrupted(SteppedEngine("m", model=model), SEEDED_DRAFTS)
    settings = EngineSettings(speculation="draft")
    engine = SteppedEngine("m", model=model, options=options, settings=settings)
    check_drafted_interruptions(engine, "draft", SEEDED_DRAFTS, tokens)


@pytest.mark.usefixtures("open_gate")
def test_preempted_row_with_mtp_head_equals_uninterrupted(tmp_path: Path) -> None:
    model = with_mtp_head(tiny_models.model("qwen3_5_seer"), tmp_path / "model")
    tokens = uninterrupted(SteppedEngine("m", model=model), SEEDED_DRAFTS)
    engine = SteppedEngine(
        "m",
        model=model,
        options=TextModelOptions(mtp_head=True),
        settings=EngineSettings(speculation="mtp"),
    )
    check_drafted_interruptions(engine, "mtp", SEEDED_DRAFTS, tokens)


def uninterrupted(engine: SteppedEngine, sampling: SamplingParams) -> list[int]:
    """Return the tokens of an answer without drafts."""
    row = engine.submit(PROMPT, max_tokens=28, sampling=sampling)
    engine.run(lambda: engine.is_done(row))
    return engine.tokens(row)


def check_drafted_interruptions(
    engine: SteppedEngine,
    drafter: str,
    sampling: SamplingParams,
    tokens: list[int],
) -> None:
    def submit(mode: CacheMode) -> int:
        return engine.submit(PROMPT, max_tokens=28, mode=mode, sampling=sampling)

    assert check_interruptions(engine, submit) == tokens
    stats = engine.stats()
    assert sum(stats.draft_tokens[drafter]) > 0
    assert stats.draft_accepted[drafter].total == stats.draft_tokens[drafter][0]


def test_client_that_leaves_while_preempted_frees_its_cache() -> None:
    engine = SteppedEngine("qwen3")
    engine.configure(PREEMPTING)
    row = engine.submit(PROMPT, max_tokens=10_000)
    engine.run(lambda: len(engine.tokens(row)) >= 9)
    urgent = engine.submit([9, 8, 7], priority=URGENT)
    engine.run(lambda: engine.stats().num_preempted == 1)

    engine.cancel(row)
    num_tokens = len(engine.tokens(row))
    engine.run(lambda: engine.is_done(urgent))

    stats = engine.stats()
    assert (stats.num_preempted, stats.preempted_bytes, stats.num_waiting, stats.num_decoding) == (0, 0, 0, 0)
    assert (stats.num_preemptions, stats.num_resumes) == (1, 0)
    assert len(engine.tokens(row)) == num_tokens


def test_time_slices_let_equal_requests_take_turns() -> None:
    engine = SteppedEngine("lfm2")
    engine.configure(SchedulerPolicy(max_rows=1, max_timeslice_tokens=8))
    alone = engine.submit(PROMPT, max_tokens=40)
    engine.run(lambda: engine.is_done(alone))

    rows = [engine.submit(PROMPT, max_tokens=40) for _ in range(3)]
    engine.run(lambda: len(engine.tokens(rows[2])) >= 8)
    assert all(len(engine.tokens(row)) <= 2 * 8 + 2 for row in rows)
    engine.run(lambda: engine.is_done(*rows))

    assert all(engine.tokens(row) == engine.tokens(alone) for row in rows)
    stats = engine.stats()
    assert stats.num_yields == stats.num_resumes
    # The last row to run has the place for itself.
    assert stats.num_yields >= 2 * (40 // 10 - 1)
    assert stats.num_preemptions == 0


def test_caller_with_128_rows_gives_others_their_share() -> None:
    engine = SteppedEngine("qwen3")
    engine.configure(SchedulerPolicy(max_rows=4))
    alone = engine.submit(PROMPT, max_tokens=60)
    engine.run(lambda: engine.is_done(alone))
    many = [engine.submit(PROMPT, max_tokens=60, caller="a") for _ in range(128)]
    engine.run(lambda: engine.stats().num_decoding == 4)

    single = engine.submit([9, 8, 7], max_tokens=40, caller="b")
    engine.run(lambda: engine.is_done(single))

    interrupted = [row for row in many if engine.tokens(row)]
    assert len(interrupted) <= 8
    assert engine.stats().num_yields == 1
    engine.run(lambda: engine.is_done(*interrupted))
    assert all(engine.tokens(row) == engine.tokens(alone) for row in interrupted)
    assert any(not engine.tokens(row) for row in many)


def test_caller_with_its_share_takes_no_row_of_another() -> None:
    engine = SteppedEngine("qwen3")
    engine.configure(SchedulerPolicy(max_rows=2))
    rows = [engine.submit(PROMPT, max_tokens=60, caller=caller) for caller in ("a", "b", "a", "b", "c")]
    engine.run(lambda: engine.is_done(*rows))

    assert engine.stats().num_yields == 0
