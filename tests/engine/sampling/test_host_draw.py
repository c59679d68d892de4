"""Tokens that the host draws follow the filters and the distribution."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mlxctl.engine.sampling.host_draw import candidates, draw_token
from mlxctl.engine.sampling.sampler import ToneCurves
from mlxctl.ir import SamplingParams, ToneCurve
from tests.engine.sampling_reference import Row, most_likely_tokens, softmax, typical_tokens

# Not a multiple of the block size.
WIDTH = 1_003


def few_logits() -> st.SearchStrategy[Row]:
    values = st.integers(-60, 60).map(lambda number: np.float32(number / 8))
    return arrays.arrays(np.float32, 8, elements=values, unique=True)


@st.composite
def many_logits(draw: st.DrawFn) -> Row:
    generator = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    # With few values, tokens are equally likely at the limit.
    num_values = draw(st.sampled_from([50, 1_000_000]))
    spread = draw(st.sampled_from([1.0, 4.0, 40.0]))
    return (generator.integers(0, num_values, WIDTH) * spread / num_values).astype(np.float32)


def weights_of(logits: Row, params: SamplingParams) -> Row:
    ids, values = candidates(logits, params, 0)
    weights = np.zeros(logits.size, dtype=np.float32)
    weights[slice(None) if ids is None else ids] = values
    return weights


def kept(logits: Row, **sampling: object) -> set[int]:
    weights = weights_of(logits, SamplingParams(**sampling))  # type: ignore[arg-type]
    return set(np.nonzero(weights)[0].tolist())


@given(row=many_logits(), top_k=st.sampled_from([1, 20, 500, 2_000]))
def test_top_k_keeps_k_most_likely_and_ties(row: Row, top_k: int) -> None:
    assert kept(row, temperature=1.0, top_k=top_k) == most_likely_tokens(row, top_k, 1)


@given(
    row=st.one_of(few_logits(), many_logits()),
    top_p=st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.999]),
    top_k=st.sampled_from([0, 5]),
)
def test_top_p_keeps_smallest_set_that_reaches_it(row: Row, top_p: float, top_k: int) -> None:
    tokens = sorted(kept(row, temperature=1.0, top_p=top_p, top_k=top_k))

    in_top_k = sorted(most_likely_tokens(row, top_k, 1))
    probabilities = np.zeros(row.size)
    probabilities[in_top_k] = softmax(row[in_top_k])
    least = probabilities[tokens].min()
    assert set(tokens) == set(np.nonzero(probabilities >= least * (1 - 1e-6))[0].tolist())
    assert probabilities[tokens].sum() >= top_p - 1e-5
    assert probabilities[probabilities > least * (1 + 1e-6)].sum() < top_p + 1e-5


@given(row=many_logits(), min_p=st.sampled_from([0.01, 0.3, 1.0]), temperature=st.sampled_from([0.5, 2.0]))
def test_min_p_keeps_a_share_of_the_maximum(row: Row, min_p: float, temperature: float) -> None:
    share = np.exp((row.astype(np.float64) - row.max()) / temperature)
    surely, perhaps = share >= min_p * (1 + 1e-5), share >= min_p * (1 - 1e-5)
    tokens = kept(row, temperature=temperature, min_p=min_p)
    assert set(np.nonzero(surely)[0]) <= tokens <= set(np.nonzero(perhaps)[0])


@given(row=st.one_of(few_logits(), many_logits()), share=st.sampled_from([0.1, 0.5, 0.9, 0.999]))
def test_typical_keeps_smallest_set_nearest_to_entropy(row: Row, share: float) -> None:
    tokens = sorted(kept(row, temperature=1.0, typical_p=share))

    probabilities = softmax(row)
    surprise = -np.log(probabilities)
    distance = np.abs(surprise - (probabilities * surprise).sum())
    # Tokens equally far from the entropy stay together.
    farthest, rounding = distance[tokens].max(), 1e-4
    assert set(np.nonzero(distance <= farthest - rounding)[0].tolist()) <= set(tokens)
    assert probabilities[distance <= farthest + rounding].sum() >= share - 1e-5
    assert probabilities[distance < farthest - rounding].sum() < share + 1e-5


@pytest.mark.parametrize("bias", range(-106, -94))
def test_typical_with_a_hardly_representable_weight_equals_that_without_the_token(bias: int) -> None:
    row = np.random.default_rng(1).normal(size=WIDTH).astype(np.float32)
    likely = int(row.argmax())
    row[likely] = -np.inf
    usual = kept(row, temperature=1.0, typical_p=0.9)

    row[likely] = row.max() + bias
    assert kept(row, temperature=1.0, typical_p=0.9) == usual


@given(row=few_logits(), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_typical_of_few_tokens_equals_definition(row: Row, share: float) -> None:
    tokens, expected = kept(row, temperature=1.0, typical_p=share), typical_tokens(row, share)
    # Tokens equally far from the entropy stay together.
    assert tokens >= expected or len(tokens ^ expected) <= 1
    assert len(tokens) <= len(expected) + 1


@given(row=few_logits(), threshold=st.sampled_from([0.05, 0.2, 0.5]))
def test_xtc_leaves_least_likely_above_threshold(row: Row, threshold: float) -> None:
    probabilities = softmax(row)
    above = [int(token) for token in np.argsort(-probabilities) if probabilities[token] >= threshold]
    left = kept(row, temperature=1.0, xtc_probability=1.0, xtc_threshold=threshold)
    assert left == set(range(row.size)) - set(above[:-1])


@given(row=few_logits(), curve=st.builds(ToneCurve, width=st.sampled_from([0.5, 4.0])))
def test_tone_curve_equals_that_of_the_device(row: Row, curve: ToneCurve) -> None:
    params = SamplingParams(temperature=0.7, tone_curve=curve)
    curves = ToneCurves.of([params])
    assert curves is not None
    curved = curves.apply(mx.array(row[None]), mx.array([[0.7]]), mx.array(row[None]))
    weights = weights_of(row, params)
    np.testing.assert_allclose(weights / weights.sum(), softmax(np.array(curved)[0]), atol=1e-5)


@pytest.mark.parametrize(("width", "top_k"), [(5, 2), (300, 150), (300, 20)])
def test_draws_have_the_distribution_of_the_weights(width: int, top_k: int) -> None:
    logits = (np.random.default_rng(3).normal(size=width) * 1.5).astype(np.float32)
    params = [SamplingParams(temperature=1.3, top_k=top_k, seed=seed) for seed in range(100)]
    drawn = [draw_token(logits, each, position) for each in params for position in range(100)]

    counts = np.bincount(drawn, minlength=width)
    weights = weights_of(logits, params[0])
    assert set(np.nonzero(counts)[0]) <= set(np.nonzero(weights)[0])
    expected = (weights / weights.sum() * len(drawn))[weights > 0]
    deviation = counts[weights > 0] - expected
    degrees = expected.size - 1
    chi_square = (deviation**2 / expected).sum()
    # Three standard deviations of the chi-square distribution.
    assert chi_square < degrees + 3 * np.sqrt(2 * degrees)


@pytest.mark.parametrize("only", [0, 127, 128, WIDTH - 1])
def test_the_only_allowed_token_is_always_drawn(only: int) -> None:
    logits = np.full(WIDTH, -np.inf, dtype=np.float32)
    logits[only] = -300.0
    drawn = {
        draw_token(logits, SamplingParams(temperature=1.0, top_p=0.9, seed=seed), 0) for seed in range(100)
    }
    assert drawn == {only}


def test_close_distributions_mostly_draw_the_same_token() -> None:
    generator = np.random.default_rng(5)
    target = (generator.normal(size=WIDTH) * 3).astype(np.float32)
    draft = target + (generator.normal(size=WIDTH) * 0.1).astype(np.float32)
    params = [SamplingParams(temperature=1.0, seed=seed) for seed in range(400)]
    num_equal = sum(draw_token(target, each, 0) == draw_token(draft, each, 0) for each in params)
    assert num_equal > 350
