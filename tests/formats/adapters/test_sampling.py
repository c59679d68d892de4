"""Request values override the model's defaults, which override neutral ones."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter, RequestDefaults
from mlxctl.ir import DefaultSampling, SamplingOptions, SamplingParams
from mlxctl.ir.errors import InvalidRequest

from .directories import adapter_of, write_model
from .requests import ask, prepare

RECOMMENDED = {
    "temperature": 0.6,
    "top_p": 0.95,
    "top_k": 20,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "do_sample": True,
}


def _sampling(adapter: ModelAdapter, **values: Any) -> SamplingParams:
    return prepare(adapter, ask(sampling=SamplingOptions(**values))).sampling


def test_generation_config_sets_the_defaults(tmp_path: Path) -> None:
    sampling = _sampling(adapter_of(write_model(tmp_path, generation_config=RECOMMENDED)), seed=1)
    assert sampling == SamplingParams(
        temperature=0.6, top_p=0.95, top_k=20, min_p=0.05, repetition_penalty=1.1, seed=1
    )


def test_request_values_override_defaults_one_by_one(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, generation_config=RECOMMENDED))
    values = {"temperature": 0.0, "top_k": 0, "presence_penalty": 0.5, "seed": 7, "num_top_logprobs": 2}
    sampling = _sampling(adapter, **values)
    assert sampling == SamplingParams(top_p=0.95, min_p=0.05, repetition_penalty=1.1, **values)


def test_model_without_values_gets_the_fallback(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, generation_config={"repetition_penalty": 1.1}))

    assert _sampling(adapter, seed=0, presence_penalty=0.5) == SamplingParams(
        temperature=0.3, min_p=0.1, repetition_penalty=1.1, presence_penalty=0.5, seed=0
    )
    assert adapter.verdict.sampling == DefaultSampling(
        source="fallback", values={"temperature": 0.3, "min_p": 0.1, "repetition_penalty": 1.1}
    )


@pytest.mark.parametrize("values", [{"temperature": 1.0}, {"top_p": 0.9}, {"min_p": 0.0}, {"typical_p": 1.0}])
def test_request_that_sets_a_value_gets_exactly_its_values(
    qwen: ModelAdapter, values: dict[str, float]
) -> None:
    assert _sampling(qwen, seed=0, **values) == SamplingParams(seed=0, **values)


def test_values_of_the_server_or_the_model_exclude_the_fallback(tmp_path: Path) -> None:
    of_server = RequestDefaults(sampling=SamplingOptions(temperature=1.0))
    adapters = [
        adapter_of(write_model(tmp_path / "plain"), request_defaults=of_server),
        adapter_of(write_model(tmp_path / "model", generation_config={"top_k": 5})),
        adapter_of(
            write_model(tmp_path / "off"), request_defaults=RequestDefaults(uses_fallback_sampling=False)
        ),
    ]

    assert [_sampling(adapter).min_p for adapter in adapters] == [0.0, 0.0, 0.0]
    assert [adapter.verdict.sampling.source for adapter in adapters] == ["server", "model", "none"]


@pytest.mark.parametrize(("values", "temperature"), [({}, 0.0), ({"temperature": 0.7}, 0.7)])
def test_do_sample_false_means_greedy_by_default(
    tmp_path: Path, values: dict[str, float], temperature: float
) -> None:
    adapter = adapter_of(write_model(tmp_path, generation_config={"do_sample": False, "temperature": 0.9}))
    assert _sampling(adapter, **values).temperature == temperature


def test_unset_seed_is_random(qwen: ModelAdapter) -> None:
    seeds = {_sampling(qwen).seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_any_integer_is_a_seed(qwen: ModelAdapter) -> None:
    assert [_sampling(qwen, seed=seed).seed for seed in (0, 7, -1, 2**63 + 5)] == [0, 7, 2**63 - 1, 5]


def test_top_k_of_the_whole_vocabulary_is_off(qwen: ModelAdapter) -> None:
    size = qwen.vocabulary_size
    assert [_sampling(qwen, top_k=top_k).top_k for top_k in (size - 1, size, 10_000_000, -1)] == [
        size - 1,
        0,
        0,
        0,
    ]


def test_logit_bias_on_an_existing_token_is_kept(qwen: ModelAdapter) -> None:
    bias = {0: 1.0, qwen.vocabulary_size - 1: -100.0}
    assert _sampling(qwen, logit_bias=bias).logit_bias == bias


@pytest.mark.parametrize("beyond", [0, 1_000_000_000])
def test_logit_bias_on_an_unknown_token_raises(qwen: ModelAdapter, beyond: int) -> None:
    token_id = qwen.vocabulary_size + beyond
    with pytest.raises(InvalidRequest, match=f"token {token_id}") as refusal:
        _sampling(qwen, logit_bias={1: 1.0, token_id: 5.0})
    assert refusal.value.param == f"logit_bias.{token_id}"


@pytest.mark.parametrize(
    "recommended", [{"temperature": "hot"}, {"top_p": True}, {"min_p": -1}, {"repetition_penalty": 0}]
)
def test_values_of_generation_config_that_are_no_numbers_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, recommended: dict[str, Any]
) -> None:
    adapter = adapter_of(write_model(tmp_path, generation_config={"top_k": 7, **recommended}))
    assert _sampling(adapter, seed=1) == SamplingParams(seed=1, top_k=7)
    assert next(iter(recommended)) in caplog.text
