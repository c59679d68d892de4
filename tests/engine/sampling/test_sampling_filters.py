"""Sampling filters and the tone curve equal a plain computation."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mlxctl.engine.backend import CPU, METAL, Backend
from mlxctl.engine.sampling.draws import Draw
from mlxctl.engine.sampling.filters import TypicalFilter, XtcFilter, token_filters
from mlxctl.engine.sampling.logit_constraints import LogitConstraints
from mlxctl.engine.sampling.penalties import MinTokens
from mlxctl.engine.sampling.sampler import BatchSampler, ToneCurves
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import SamplingParams, ToneCurve
from mlxctl.ir.tokens import pack
from tests.engine.sampling_reference import hlg, most_likely_tokens, softmax, typical_tokens

WIDTH = 8
NOTHING = SamplingParams(temperature=1.0)
Row = Any
both_backends = pytest.mark.parametrize("backend", [CPU, METAL], ids=["host", "device"])


def logits(num_rows: int = 1) -> st.SearchStrategy[Row]:
    values = st.integers(-60, 60).map(lambda number: np.float32(number / 8))
    return arrays.arrays(np.float32, (num_rows, WIDTH), elements=values, unique=True)


def sample(
    values: mx.array, rows: list[Sequence], backend: Backend, constraints: LogitConstraints | None = None
) -> Draw:
    num_rows, width = values.shape
    sampler = BatchSampler(rows, inputs=mx.array([0] * num_rows), vocabulary_size=width, backend=backend)
    draw = sampler.sample(values, rows, constraints)
    draw.finish()
    return draw


def make_row(
    sampling: SamplingParams, *, num_sampled: int = 0, stops: frozenset[int] = frozenset()
) -> Sequence:
    row = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=pack([1]),
        sampling=sampling,
        stop_token_ids=stops,
        max_tokens=99,
    )
    row.num_sampled_tokens = num_sampled
    return row


def kept(token_filter: Row) -> list[set[int]]:
    return [set(np.nonzero(np.isfinite(row))[0].tolist()) for row in np.array(token_filter)]


@given(rows=logits(2), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_typical_keeps_tokens_nearest_to_entropy(rows: Row, share: float) -> None:
    token_filter = TypicalFilter.of([SamplingParams(typical_p=share), NOTHING])
    assert token_filter is not None
    left = kept(token_filter.apply(mx.array(rows)))
    expected = typical_tokens(rows[0], share)
    # Tokens equally far from the entropy stay together.
    assert left[0] >= expected or len(left[0] ^ expected) <= 1
    assert len(left[0]) <= len(expected) + 1
    assert left[1] == set(range(WIDTH))


@given(rows=logits(3), threshold=st.sampled_from([0.05, 0.2, 0.5]))
def test_xtc_leaves_least_likely_above_threshold(rows: Row, threshold: float) -> None:
    chosen = SamplingParams(xtc_probability=0.5, xtc_threshold=threshold)
    token_filter = XtcFilter.of([chosen, chosen, NOTHING])
    assert token_filter is not None
    left = kept(token_filter.apply(mx.array(rows), lambda index: [0.4, 0.6, 0.0][index]))
    probabilities = softmax(rows[0])
    above = [token for token in np.argsort(-probabilities) if probabilities[token] >= threshold]
    assert left[0] == set(range(WIDTH)) - {int(token) for token in above[:-1]}
    assert left[1] == left[2] == set(range(WIDTH))


@given(
    seed=st.integers(0, 1 << 32),
    # With few, tokens are equally likely at the limit.
    num_values=st.sampled_from([200, 1_000_000]),
    top_k=st.sampled_from([1, 20, 64, 65]),
    top_p=st.sampled_from([1, 0.7]),
)
def test_top_k_and_top_p_of_large_vocabulary_equal_a_full_sort(
    seed: int, num_values: int, top_k: int, top_p: float
) -> None:
    width = 10_001
    rows = (
        np.random.default_rng(seed).integers(0, num_values, (2, width)).astype(np.float32) * 25 / num_values
    )
    sampling = SamplingParams(temperature=1.0, top_k=top_k, top_p=top_p)

    [alone] = token_filters([sampling], width)
    [beside_greedy] = token_filters([SamplingParams(temperature=0), sampling], width)

    expected = most_likely_tokens(rows[1], top_k, top_p)
    assert kept(alone.apply(mx.array(rows[1:]))) == [expected]
    assert kept(beside_greedy.apply(mx.array(rows))) == [set(range(width)), expected]


def test_top_p_of_one_keeps_all_tokens_of_top_k() -> None:
    # In float32 the probability of the first token rounds to 1.
    row = mx.array([[40.0, 1.0, 0.0]])
    for top_k in (2, 65):
        [token_filter] = token_filters([SamplingParams(temperature=1.0, top_k=top_k, top_p=1)], 3)
        assert kept(token_filter.apply(row)) == [set(range(min(top_k, 3)))]


def test_rows_with_small_and_large_top_k_share_a_batch() -> None:
    width = 10_001
    rows = np.random.default_rng(1).normal(size=(2, width)).astype(np.float32)
    small, large = SamplingParams(temperature=1.0, top_k=20), SamplingParams(temperature=1.0, top_k=500)

    filtered = mx.array(rows)
    for token_filter in token_filters([small, large], width):
        filtered = token_filter.apply(filtered)

    assert kept(filtered) == [most_likely_tokens(rows[0], 20, 1), most_likely_tokens(rows[1], 500, 1)]


curves = st.builds(
    ToneCurve,
    width=st.sampled_from([0.5, 2.0, 4.0]),
    shoulder=st.sampled_from([1.0, 4.0]),
    toe=st.sampled_from([2.0, 6.0]),
    pivot_offset=st.sampled_from([1.0, 6.0]),
)


@given(rows=logits(2), curve=curves, temperature=st.sampled_from([0.5, 1.0, 2.0]))
def test_tone_curve_equals_formula_and_keeps_order(rows: Row, curve: ToneCurve, temperature: float) -> None:
    params = [SamplingParams(temperature=temperature, tone_curve=curve), NOTHING]
    tone = ToneCurves.of(params)
    assert tone is not None
    rows[0, 0] = -np.inf
    scale = mx.array([[temperature], [1.0]])
    bent = np.array(tone.apply(mx.array(rows), scale, mx.array(rows) / scale))
    assert bent[0, 0] == -np.inf
    np.testing.assert_allclose(bent[0, 1:], hlg(rows[0, 1:], curve, temperature), rtol=1e-4, atol=1e-4)
    assert np.array_equal(np.argsort(bent[0]), np.argsort(rows[0]))
    assert np.array_equal(bent[1], rows[1])


def test_wide_tone_curve_equals_temperature() -> None:
    rows = mx.array([[0.0, -1.0, -3.0, -9.0]])
    tone = ToneCurves.of([SamplingParams(temperature=0.7, tone_curve=ToneCurve(width=1000.0))])
    assert tone is not None
    bent = tone.apply(rows, mx.array([[0.7]]), rows / 0.7)
    np.testing.assert_allclose(np.array(mx.softmax(bent)), np.array(mx.softmax(rows / 0.7)), atol=1e-6)


def test_tone_curve_is_ignored_at_temperature_zero() -> None:
    assert ToneCurves.of([SamplingParams(temperature=0.0, tone_curve=ToneCurve())]) is None


@both_backends
def test_stop_tokens_are_banned_below_min_tokens(backend: Backend) -> None:
    likes_to_stop = mx.array([[0.0, 5.0, 1.0]] * 3)
    patient = SamplingParams(temperature=0.0, min_tokens=2)
    rows = [
        make_row(patient, num_sampled=1, stops=frozenset({1})),
        make_row(patient, num_sampled=2, stops=frozenset({1})),
        make_row(SamplingParams(temperature=0.0), stops=frozenset({1})),
    ]
    assert sample(likes_to_stop, rows, backend).tokens.tolist() == [2, 1, 1]
    assert MinTokens.of(rows[1:], 3) is None


def words(*allowed: int) -> list[int]:
    return [sum(1 << token for token in allowed)]


@both_backends
def test_constraints_mask_only_their_rows(backend: Backend) -> None:
    rows = [make_row(SamplingParams(temperature=0.0)) for _ in range(3)]
    masks = np.array([words(3, 5)], dtype=np.int32)
    falling = mx.array([[float(-token) for token in range(WIDTH)]] * 3)
    draw = sample(falling, rows, backend, LogitConstraints(masked=[1], masks=masks))
    assert draw.tokens.tolist() == [0, 3, 0]


@both_backends
def test_constraints_force_and_penalize_tokens(backend: Backend) -> None:
    rows = [make_row(SamplingParams(temperature=0.0)) for _ in range(3)]
    falling = mx.array([[float(-token) for token in range(WIDTH)]] * 3)
    constraints = LogitConstraints(
        forced=[-1, 6, -1], penalized=[2, 2], penalized_ids=[0, 1], penalties=[10.0, 0.5]
    )
    assert sample(falling, rows, backend, constraints).tokens.tolist() == [0, 6, 1]


@both_backends
def test_scores_ignore_constraints(backend: Backend) -> None:
    row = make_row(SamplingParams(temperature=0.0, num_top_logprobs=1))
    masks = np.array([words(1)], dtype=np.int32)
    rows, values = [row, make_row(SamplingParams(temperature=0.0))], mx.array([[0.0, -1.0], [0.0, -1.0]])
    draw = sample(values, rows, backend, LogitConstraints(masked=[0], masks=masks))
    assert draw.tokens.tolist() == [1, 0]
    (score, _) = draw.scores()
    assert score is not None
    assert score.logprob == pytest.approx(float(np.log(softmax(np.array([0.0, -1.0]))[1])), abs=1e-5)
    assert score.top[0][0] == 0


@both_backends
def test_xtc_depends_on_position_not_on_batch_row(backend: Backend) -> None:
    xtc = SamplingParams(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.1, seed=7)
    even = mx.array([[1.0, 0.9, 0.8, -9.0]])
    drawn = []
    for position in range(40):
        row = make_row(xtc, num_sampled=position)
        rows = [make_row(NOTHING), make_row(NOTHING), row]
        alone = sample(even, [row], backend).tokens
        beside = sample(mx.repeat(even, 3, axis=0), rows, backend).tokens
        assert beside[2].item() == alone[0].item()
        drawn.append(alone[0].item())
    # xtc applies to half of the draws; otherwise that token has a probability above a quarter.
    assert 18 < drawn.count(2) < 35
