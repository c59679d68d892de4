"""Sampling parameters follow their definition, per row."""

import math
from collections import Counter, abc
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from mlxctl.engine.backend import CPU, METAL, Backend
from mlxctl.engine.sampling.draws import Draw
from mlxctl.engine.sampling.logprobs import score_of, scores_of
from mlxctl.engine.sampling.random_numbers import position_key
from mlxctl.engine.sampling.sampler import BatchSampler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import SamplingParams
from mlxctl.ir.tokens import pack

VOCABULARY = 16


def make_row(
    sampling: SamplingParams,
    *,
    prompt: abc.Sequence[int] = (1,),
    generated: list[int] | None = None,
    num_sampled: int | None = None,
) -> Sequence:
    output = generated or []
    row = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=pack(prompt),
        sampling=sampling,
        stop_token_ids=frozenset(),
        max_tokens=99,
    )
    row.output_token_ids = output
    row.num_sampled_tokens = len(output) if num_sampled is None else num_sampled
    return row


Sample = Callable[..., list[int]]
Draws = Callable[..., Counter[int]]


@pytest.fixture(params=[CPU, METAL], ids=["host", "device"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """A backend whose tokens the host chooses, and one whose device does."""
    backend: Backend = request.param
    return backend


@pytest.fixture
def sample(backend: Backend) -> Sample:
    def sample(logits: list[list[float]], rows: list[Sequence], inputs: list[int] | None = None) -> list[int]:
        sampler = BatchSampler(
            rows, inputs=mx.array(inputs or [0] * len(rows)), vocabulary_size=len(logits[0]), backend=backend
        )
        return tokens_of(sampler.sample(mx.array(logits), rows))

    return sample


@pytest.fixture
def draws(sample: Sample) -> Draws:
    def draws(logits: list[float], sampling: dict[str, object], num: int = 400) -> Counter[int]:
        rows = [make_row(SamplingParams(seed=seed, **sampling)) for seed in range(num)]  # type: ignore[arg-type]
        return Counter(sample([logits] * num, rows))

    return draws


def tokens_of(draw: Draw) -> list[int]:
    draw.finish()
    return [int(token) for token in np.array(draw.tokens)]


def ramp(step: float = 1.0) -> list[float]:
    """Return logits that fall by `step` from token to token."""
    return [-index * step for index in range(VOCABULARY)]


def test_temperature_zero_is_greedy_and_one_samples_by_probability(draws: Draws) -> None:
    assert set(draws(ramp(), {"temperature": 0.0})) == {0}
    share = draws(ramp(), {"temperature": 1.0}, num=2000)[0] / 2000
    assert share == pytest.approx(1 - math.exp(-1), abs=0.04)


def test_temperature_follows_formula(draws: Draws) -> None:
    share = draws(ramp(), {"temperature": 4.0}, num=2000)[0] / 2000
    expected = 1 / sum(math.exp(-index / 4) for index in range(VOCABULARY))
    assert share == pytest.approx(expected, abs=0.04)


def test_top_k_keeps_k_most_likely(draws: Draws) -> None:
    assert set(draws(ramp(0.01), {"temperature": 1.0, "top_k": 3})) == {0, 1, 2}


def test_top_p_keeps_smallest_set_reaching_p(draws: Draws) -> None:
    logits = [math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]
    assert set(draws(logits, {"temperature": 1.0, "top_p": 0.75})) == {0, 1}
    assert set(draws(logits, {"temperature": 1.0, "top_p": 0.81})) == {0, 1, 2}
    assert set(draws(logits, {"temperature": 1.0, "top_p": 1e-9})) == {0}


def test_top_p_applies_after_top_k(draws: Draws) -> None:
    logits = [math.log(p) for p in (0.4, 0.3, 0.2, 0.1)]
    # Of the two that top_k leaves, the first alone has 4/7.
    assert set(draws(logits, {"temperature": 1.0, "top_k": 2, "top_p": 0.5})) == {0}


def test_min_p_drops_tokens_below_share_of_maximum(draws: Draws) -> None:
    logits = [math.log(p) for p in (0.6, 0.25, 0.1, 0.05)]
    assert set(draws(logits, {"temperature": 1.0, "min_p": 0.2})) == {0, 1}


def test_penalties_count_generated_tokens_and_token_in_flight(sample: Sample) -> None:
    flat = [0.0] * VOCABULARY
    logits = [flat.copy() for _ in range(3)]
    for row in logits:
        row[4] = 1.0
        row[5] = 0.9
    presence = make_row(SamplingParams(temperature=0, presence_penalty=0.5), generated=[4, 4])
    frequency = make_row(SamplingParams(temperature=0, frequency_penalty=0.06), generated=[4, 4])
    in_flight = make_row(SamplingParams(temperature=0, repetition_penalty=2.0), generated=[], num_sampled=1)

    assert sample(logits, [presence, frequency, in_flight], inputs=[4, 4, 4]) == [5, 5, 5]
    assert sample(
        logits[:1], [make_row(SamplingParams(temperature=0, presence_penalty=0.5))], inputs=[4]
    ) == [4]


def test_counts_grow_with_every_sampled_token(backend: Backend) -> None:
    row = make_row(SamplingParams(temperature=0, frequency_penalty=1.0))
    sampler = BatchSampler([row], inputs=mx.array([0]), vocabulary_size=3, backend=backend)

    chosen = [tokens_of(sampler.sample(mx.array([[2.0, 1.5, 0.0]]), [row])) for _ in range(4)]

    assert chosen == [[0], [1], [0], [1]]


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits(sample: Sample) -> None:
    row = make_row(SamplingParams(temperature=0, repetition_penalty=2.0), generated=[0, 1])
    assert sample([[3.0, -1.0, 1.4, -1.5]], [row], inputs=[1]) == [0]
    assert sample([[2.0, -1.0, 1.4, -1.5]], [row], inputs=[1]) == [2]
    assert sample([[-9.0, -1.0, -8.0, -1.5]], [row], inputs=[1]) == [3]


def test_only_the_repetition_penalty_counts_the_prompt(sample: Sample) -> None:
    rows = [
        make_row(SamplingParams(**{"temperature": 0, name: value}), prompt=[0, 3])  # type: ignore[arg-type]
        for name, value in {
            "repetition_penalty": 2.0,
            "presence_penalty": 2.0,
            "frequency_penalty": 2.0,
            "temperature": 0,
        }.items()
    ]
    assert sample([[3.0, 2.0, 1.0, 2.5]] * 4, rows, inputs=[3] * 4) == [1, 0, 0, 0]


def test_logit_bias_shifts_and_bans(sample: Sample) -> None:
    favored = make_row(SamplingParams(temperature=0, logit_bias={9: 100.0}))
    banned = make_row(SamplingParams(temperature=0, logit_bias={0: -100.0}))
    free = make_row(SamplingParams(temperature=0))
    assert sample([ramp()] * 3, [favored, banned, free]) == [9, 1, 0]


def test_scores_are_raw_float32_and_only_for_requesting_rows(backend: Backend) -> None:
    rows = [
        make_row(SamplingParams(temperature=0, logit_bias={3: 100.0}, num_top_logprobs=2)),
        make_row(SamplingParams(temperature=0)),
        make_row(SamplingParams(temperature=0, num_top_logprobs=0)),
    ]
    sampler = BatchSampler(rows, inputs=mx.array([0, 0, 0]), vocabulary_size=VOCABULARY, backend=backend)
    logits = mx.array([ramp()] * 3).astype(mx.bfloat16)

    first, second, third = sampler.sample(logits, rows).scores()

    normalizer = math.log(sum(math.exp(-index) for index in range(VOCABULARY)))
    assert first is not None
    assert first.logprob == pytest.approx(-3 - normalizer, abs=1e-5)
    assert [(token_id, pytest.approx(value, abs=1e-5)) for token_id, value in first.top] == [
        (0, -normalizer),
        (1, -1 - normalizer),
    ]
    assert second is None
    assert third is not None
    assert third.top == []


def test_random_keys_differ_by_seed_and_position() -> None:
    keys = {position_key(seed, position) for seed in range(50) for position in range(50)}

    assert len(keys) == 2500
    assert all(0 <= word < 2**32 for key in keys for word in key)
    assert position_key(2**63 - 1, 0) != position_key(0, 2**31)


def test_draw_is_independent_of_other_rows_parameters(sample: Sample) -> None:
    plain = SamplingParams(temperature=1.0, seed=11)
    others = [
        SamplingParams(temperature=1.0, top_k=2, seed=1),
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=1.0, min_p=0.3, presence_penalty=1.0, logit_bias={2: 1.0}, seed=2),
    ]
    for position in range(20):
        rows = [make_row(params, generated=[2] * position) for params in [plain, *others]]
        alone = sample([ramp(0.1)], rows[:1])
        assert sample([ramp(0.1)] * 4, rows)[0] == alone[0]


@pytest.mark.parametrize("size", [300, 50_257, 151_936, 262_144])
@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
def test_normalizer_of_a_large_vocabulary_is_exact(size: int, spread: float) -> None:
    raw = (np.random.default_rng(size).standard_normal((2, size)) * spread + 20).astype(np.float32)
    exact = raw.astype(np.float64) - raw.max(axis=-1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    best = raw.argmax(axis=-1)

    chosen = np.array(scores_of(mx.array(raw), mx.array(best.astype(np.uint32)), 0).chosen)
    on_host = [score_of(row, int(token), 0).logprob for row, token in zip(raw, best, strict=True)]

    expected = exact[[0, 1], best]
    assert np.abs(chosen - expected).max() < 2e-6
    assert np.abs(np.array(on_host) - expected).max() < 2e-6
