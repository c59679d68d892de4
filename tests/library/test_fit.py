"""Whether a model fits a machine, its longest context and maximum speed."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mlxctl.engine.loading.loader import default_memory_limit
from mlxctl.ir import KVFormat
from mlxctl.ir.model_spec import TextModelOptions
from mlxctl.library import Machine, ModelDescription, describe_model, fit_model, fit_on_macs, this_machine
from mlxctl.library.apple_chips import CHIPS, find_chip
from mlxctl.library.fit import DEFAULT_CONTEXT_TOKENS, SLOW_LARGE, SLOW_QUANTIZED
from mlxctl.library.machine import ask_metal
from mlxctl.library.prefill_memory import estimate_prefill_bytes, estimate_prompt_bytes, pass_memory
from tests import tiny_models

from .weight_files import packed, write_model

GIB = 1024**3
# An 8-billion-parameter model with 36 layers, 8 key-value heads of 128, packed in 4 bits.
CONFIG = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "intermediate_size": 12288, "max_position_embeddings": 40960,
    "quantization": {"bits": 4, "group_size": 64},
}  # fmt: skip
KV_BYTES_PER_TOKEN = 2 * 8 * 128 * 36 * 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelDescription:
    tensors = packed("model.layers.0.mlp.up_proj", 2_000_000, 4096)
    return describe_model(write_model(tmp_path_factory.mktemp("fit") / "big", CONFIG, tensors))


def machine(usable_gib: float, *, gb_per_second: float | None = 400, has_metal: bool = True) -> Machine:
    return Machine(
        chip="X",
        memory_bytes=64 * GIB,
        usable_bytes=int(usable_gib * GIB),
        is_exact=True,
        has_metal=has_metal,
        bandwidth_bytes_per_second=gb_per_second * 1e9 if gb_per_second else None,
    )


def test_needed_memory_is_weights_cache_its_copy_and_prefill(model: ModelDescription) -> None:
    fit = fit_model(model, machine(48), context_tokens=8192)
    assert fit is not None
    assert fit.weights_bytes == 2_000_000 * 4096 * 4.5 / 8
    # With room for the answer and the next turn, in steps of 256.
    assert fit.cache_bytes == (8192 + 256 + 1024) * KV_BYTES_PER_TOKEN
    assert fit.prefix_bytes == 8192 * KV_BYTES_PER_TOKEN
    # Hidden states in 32 bits, inner ones in 16, the cache of one layer while it grows, and one row of
    # logits.
    assert (
        fit.transient_bytes
        == 2048 * (8 * 4096 * 4 + 4 * 12288 * 2) + 8192 * KV_BYTES_PER_TOKEN // 36 + 151936 * 4
    )
    parts = fit.weights_bytes, fit.cache_bytes, fit.prefix_bytes, fit.transient_bytes
    assert fit.needed_bytes == sum(parts)
    assert fit.fits is True


def test_longest_context_is_the_last_that_fits(model: ModelDescription) -> None:
    tight = machine(7)
    fit = fit_model(model, tight)
    assert fit is not None
    longest = fit.max_context_tokens
    assert longest is not None
    assert 0 < longest < 40960
    assert not fit.is_capped_by_model
    assert fit_model(model, tight, context_tokens=longest).fits is True
    assert fit_model(model, tight, context_tokens=longest + 256).fits is False


def test_model_length_caps_longest_context(model: ModelDescription) -> None:
    fit = fit_model(model, machine(48))
    assert (fit.max_context_tokens, fit.is_capped_by_model) == (40960, True)


def test_too_large_weights_never_fit(model: ModelDescription) -> None:
    fit = fit_model(model, machine(4))
    assert (fit.fits, fit.max_context_tokens) == (False, 0)


def test_unknown_cache_gives_unknown_fit_unless_weights_are_too_large(model: ModelDescription) -> None:
    strange = dataclasses.replace(model, cache=None)
    assert fit_model(strange, machine(48)).fits is None
    assert fit_model(strange, machine(48)).needed_bytes is None
    assert fit_model(strange, machine(4)).fits is False


def test_predicted_speed_is_bandwidth_by_bytes_per_token(model: ModelDescription) -> None:
    fit = fit_model(model, machine(48, gb_per_second=400), context_tokens=4096)
    assert fit.predicted_tokens_per_second == pytest.approx(
        400e9 / (fit.weights_bytes + 4096 * KV_BYTES_PER_TOKEN)
    )
    assert fit_model(model, machine(48, gb_per_second=None)).predicted_tokens_per_second is None


def test_cpu_is_too_slow_for_quantized_and_for_large_models(model: ModelDescription, tmp_path: Path) -> None:
    cpu = dataclasses.replace(machine(48, gb_per_second=None), computes_on_cpu=True)
    tensors = packed("model.layers.0.mlp.up_proj", 1024, 1024)
    small = describe_model(write_model(tmp_path / "small", {**CONFIG, "quantization": None}, tensors))
    assert model.weights is not None
    large = dataclasses.replace(small, weights=model.weights)
    reasons = [fit_model(each, cpu).slow_because for each in (model, large, small)]
    assert reasons == [SLOW_QUANTIZED, SLOW_LARGE, None]
    assert fit_model(model, machine(48)).slow_because is None


def test_typical_context_is_the_longest_that_fits_up_to_the_default(model: ModelDescription) -> None:
    large, tight, none = (fit_model(model, machine(size), context_tokens=20_000) for size in (48, 7, 4))
    assert large is not None
    assert tight is not None
    assert none is not None
    assert large.typical_context_tokens == DEFAULT_CONTEXT_TOKENS
    assert large.typical_predicted_tokens_per_second == pytest.approx(
        400e9 / (large.weights_bytes + DEFAULT_CONTEXT_TOKENS * KV_BYTES_PER_TOKEN)
    )
    assert tight.typical_context_tokens == min(tight.max_context_tokens or 0, DEFAULT_CONTEXT_TOKENS)
    assert (none.typical_context_tokens, none.typical_predicted_tokens_per_second) == (0, None)


def test_fit_covers_every_mac_of_the_table(model: ModelDescription) -> None:
    fits = fit_on_macs(model)
    assert len(fits) == sum(len(chip.memory_gib) for chip in CHIPS)
    smallest, largest = fits[0], max(fits, key=lambda fit: fit.machine.memory_bytes)
    assert (smallest.machine.chip, smallest.machine.memory_bytes, smallest.fits) == (
        "Apple M1",
        8 * GIB,
        False,
    )
    assert (largest.machine.chip, largest.machine.usable_bytes, largest.fits) == (
        "Apple M3 Ultra",
        384 * GIB,
        True,
    )


@pytest.mark.parametrize(
    ("brand", "memory_gib", "bandwidth"),
    [
        ("Apple M4 Max", 36, 410),
        ("Apple M4 Max", 128, 546),
        ("Apple M4 Max", 99, 410),
        ("Apple M1", 16, 68.25),
        ("Apple M99", 16, None),
    ],
)
def test_chip_is_found_by_name_and_memory(brand: str, memory_gib: int, bandwidth: float | None) -> None:
    chip = find_chip(brand, memory_gib * GIB)
    assert (chip.bandwidth_gb_per_second if chip else None) == bandwidth


def test_this_machine_matches_the_engines_limit() -> None:
    assert this_machine().usable_bytes == default_memory_limit()
    assert this_machine(memory_limit_bytes=GIB).usable_bytes == GIB


def test_metal_limit_is_read_in_a_child_process() -> None:
    import mlx.core as mx

    assert ask_metal() == mx.device_info().get("max_recommended_working_set_size", 0)


@pytest.mark.parametrize(("chunk", "num_tokens"), [(128, 128), (128, 1024), (512, 1024)])
@pytest.mark.parametrize("name", ["llama3", "gemma3", "lfm2", "qwen3_next", "gpt_oss", "mamba"])
def test_chunk_estimate_is_near_the_measured_peak(name: str, chunk: int, num_tokens: int) -> None:
    measured = measure_peak(load(name), [chunk] * (num_tokens // chunk))

    estimate = estimate_prefill_bytes(
        config_of(name), chunk_tokens=chunk, context_tokens=num_tokens, float_bytes=4, has_metal=False
    )

    # Half a megabyte is small for any model; recurrent layers need it for short prompts.
    assert measured / 1.3 - 5e5 < estimate < 1.3 * measured


@pytest.mark.parametrize("bits", [None, 4])
def test_chunk_estimate_holds_for_16_and_4_bits(bits: int | None) -> None:
    import mlx.core as mx
    import mlx.nn as nn

    model = load("bench5m")
    if bits is not None:
        nn.quantize(model, group_size=64, bits=bits)
    model.set_dtype(mx.bfloat16)
    measured = measure_peak(model, [32, 32])

    estimate = estimate_prefill_bytes(
        config_of("bench5m"), chunk_tokens=32, context_tokens=64, float_bytes=2, has_metal=False
    )

    assert measured / 1.3 < estimate < 1.3 * measured


@pytest.mark.parametrize("num_tokens", [500, 1200])
@pytest.mark.parametrize("name", ["llama3", "gemma3", "qwen3_next", "mamba"])
def test_prompt_estimate_is_near_the_peak_of_the_largest_passes(name: str, num_tokens: int) -> None:
    sizes = {"weights_bytes": 0, "float_bytes": 4, "has_metal": False}
    memory = pass_memory(config_of(name), **sizes)
    assert memory is not None
    passes: list[int] = []
    while sum(passes) < num_tokens:
        passes.append(memory.largest_pass(sum(passes), maximum=num_tokens - sum(passes)))

    estimate = estimate_prompt_bytes(
        config_of(name), chunk_max_tokens=2048, context_tokens=num_tokens, **sizes
    )

    measured = measure_peak(load(name), passes)
    assert estimate is not None
    assert measured / 1.3 < estimate < 1.3 * measured


def test_long_prompts_are_prefilled_in_small_chunks_on_cpu() -> None:
    config = config_of("llama3")
    whole = estimate_prefill_bytes(
        config, chunk_tokens=2048, context_tokens=8192, float_bytes=4, has_metal=False
    )

    read = estimate_prompt_bytes(
        config, weights_bytes=0, chunk_max_tokens=2048, context_tokens=8192, float_bytes=4, has_metal=False
    )

    assert 8 * read < whole


def load(name: str) -> Any:
    from mlx_lm.utils import load_model

    return load_model(tiny_models.model(name))[0]


def config_of(name: str) -> Any:
    return describe_model(tiny_models.model(name)).config


def measure_peak(model: Any, passes: list[int]) -> int:
    """Return the highest additional memory of a prefill pass, in bytes."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache

    mx.eval(model.parameters())
    cache = make_prompt_cache(model)
    peaks = []
    for num_tokens in passes:
        mx.clear_cache()
        mx.reset_peak_memory()
        model(mx.array([[5] * num_tokens]), cache=cache)
        mx.eval([layer.state for layer in cache])
        peaks.append(mx.get_peak_memory() - mx.get_active_memory())
    return max(peaks)


@pytest.mark.parametrize(("bits", "share"), [(8, 8.5 / 16), (4, 4.5 / 16)])
def test_quantized_cache_is_smaller_but_attention_is_not_fused(
    model: ModelDescription, bits: int, share: float
) -> None:
    # A 16-bit scale and bias per 64 numbers are half a bit per number.
    plain, fewer = (
        fit_model(each, machine(16))
        for each in (model, model.served_with(TextModelOptions(kv_format=KVFormat(bits=bits, group_size=64))))
    )
    assert fewer.cache_bytes == plain.cache_bytes * share
    # All scores of a pass are in memory, up to the bound of a pass.
    assert plain.transient_bytes < 0.7 * GIB < fewer.transient_bytes < 1.05 * GIB
    roomy = [
        fit_model(each, machine(7), chunk_tokens=64)
        for each in (model, model.served_with(TextModelOptions(kv_format=KVFormat(bits=bits, group_size=64))))
    ]
    assert roomy[1].max_context_tokens > roomy[0].max_context_tokens


def test_formats_by_layer_count_for_their_layers(model: ModelDescription) -> None:
    num_layers = model.config["num_hidden_layers"]
    formats = ((0, KVFormat(bits=8, group_size=64)), (2, KVFormat(bits=4, group_size=64)))
    by_layer = model.served_with(TextModelOptions(kv_format=formats))
    assert by_layer.has_quantized_cache
    expected = (num_layers - 2 + 8.5 / 16 + 4.5 / 16) / num_layers
    assert by_layer.cache.bytes_per_token == model.cache.bytes_per_token * expected


def test_scores_count_without_fused_attention(model: ModelDescription) -> None:
    wide = dataclasses.replace(model, config={**CONFIG, "head_dim": 256})
    plain, unfused = (fit_model(each, machine(48), chunk_tokens=512) for each in (model, wide))
    # Heads twice as wide also store twice as much.
    wider_bytes = 8192 * KV_BYTES_PER_TOKEN // 36
    assert unfused.transient_bytes - plain.transient_bytes == 512 * 8192 * (32 * 2 + 1) + wider_bytes
    assert unfused.max_context_tokens <= plain.max_context_tokens
