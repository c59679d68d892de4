"""Quantized keys and values in batches equal those of single rows."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import load
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, QuantizedKVCache, RotatingKVCache
from mlx_lm.utils import _get_classes, load_model

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.quantized_cache import (
    BatchQuantizedKVCache,
    PreallocatedQuantizedKVCache,
    quantized,
)
from mlxctl.engine.generation.measurement import check_kv_format
from mlxctl.ir import KVFormat
from tests import tiny_models
from tests.engine.cache_reading import held, keys_of, next_logits, read
from tests.tiny_models.wide_heads import wide_model

FORM = KVFormat(bits=8, group_size=64)


@pytest.fixture(scope="module")
def model() -> Any:
    return load(str(tiny_models.model("bench5m")))[0]


def test_single_row_computes_as_mlx_lms_quantized_cache(model: Any) -> None:
    tokens = [20 + place % 400 for place in range(300)]
    theirs = [QuantizedKVCache(group_size=64, bits=8) for _ in range(len(kv.new_caches(model)))]
    model(mx.array([tokens]), cache=theirs)

    ours = read(model, tokens, FORM)

    for _ in range(3):
        assert mx.array_equal(next_logits(model, ours, [5]), model(mx.array([[5]]), cache=theirs)[:, -1])


def test_joined_rows_of_any_length_compute_as_alone(model: Any) -> None:
    prompts = [list(range(20, 20 + num)) for num in (7, 300, 0, 40)]
    alone = [next_logits(model, read(model, prompt, FORM), [5])[0] for prompt in prompts]
    pair = kv.join([read(model, prompts[0], FORM), read(model, prompts[1], FORM)], [1, 1])

    batch = kv.join([pair, read(model, prompts[2], FORM), read(model, prompts[3], FORM)], [2, 1, 1])

    together = next_logits(model, batch, [5] * 4)
    assert all(mx.allclose(one, other, atol=1e-2) for one, other in zip(alone, together, strict=True))


def test_extracted_row_can_be_trimmed_and_continued(model: Any) -> None:
    batch = kv.join([read(model, [20] * 10, FORM), read(model, list(range(30, 90)), FORM)], [1, 1])

    row = kv.extract_row(batch, 1)
    for layer in row:
        layer.trim(20)

    assert row[0].size() == 40
    assert mx.allclose(
        next_logits(model, row, [5]),
        next_logits(model, read(model, list(range(30, 70)), FORM), [5]),
        atol=1e-2,
    )


def test_prompts_prefilled_together_keep_their_own_tokens(model: Any) -> None:
    prompts = [list(range(20, 30)), list(range(40, 43))]
    caches = kv.join([read(model, prompt[:1], FORM) for prompt in prompts], [1, 1])

    kv.forward(model, caches, [np.array(prompt[1:], dtype=np.uint32) for prompt in prompts])

    together = next_logits(model, caches, [5, 5])
    for prompt, logits in zip(prompts, together, strict=True):
        assert mx.allclose(next_logits(model, read(model, prompt, FORM), [5])[0], logits, atol=1e-2)


def test_only_growing_layers_are_quantized() -> None:
    window, state, both = RotatingKVCache(32), ArraysCache(2), CacheList(ArraysCache(1), KVCache())

    layers = list(quantized([KVCache(), window, state, both], FORM))

    assert isinstance(layers[0], PreallocatedQuantizedKVCache)
    assert layers[1] is window
    assert layers[2] is state
    assert [type(part) for part in layers[3].caches] == [ArraysCache, PreallocatedQuantizedKVCache]


def test_formats_by_layer_hold_for_their_layers_only() -> None:
    window, four = RotatingKVCache(32), KVFormat(bits=4, group_size=32)
    caches = [KVCache(), window, KVCache(), CacheList(ArraysCache(1), KVCache()), KVCache()]

    layers = list(quantized(caches, ((1, FORM), (2, four), (3, FORM))))

    assert (layers[0], layers[1], layers[4]) == (caches[0], window, caches[4])
    assert (layers[2].kv_format, layers[3].caches[1].kv_format) == (four, FORM)


def test_joined_rows_with_formats_by_layer_compute_as_alone(model: Any) -> None:
    formats = ((0, FORM), (2, KVFormat(bits=4, group_size=32)))
    prompts = [list(range(20, 20 + num)) for num in (7, 60)]
    alone = [next_logits(model, read(model, prompt, formats), [5])[0] for prompt in prompts]

    batch = kv.join([read(model, prompt, formats) for prompt in prompts], [1, 1])

    together = next_logits(model, batch, [5] * 2)
    assert all(mx.allclose(one, other, atol=1e-2) for one, other in zip(alone, together, strict=True))


def test_composite_caches_are_joined_by_part() -> None:
    def composite(number: int) -> CacheList:
        (layer,) = quantized([CacheList(ArraysCache(1), KVCache())], FORM)
        layer[0][0] = mx.full((1, 3), number)
        layer[1].update_and_fetch(keys_of(number, 4 + number), -keys_of(number, 4 + number))
        return layer  # type: ignore[no-any-return]

    (joined,) = kv.join([[composite(1)], [composite(2)]], [1, 1])

    assert joined[0][0].tolist() == [[1] * 3, [2] * 3]
    assert isinstance(joined[1], BatchQuantizedKVCache)
    assert [held(joined[1].extract(row)) for row in (0, 1)] == [
        keys_of(row, 4 + row)[0, 0, :, 0].tolist() for row in (1, 2)
    ]


def test_format_counts_the_bytes_of_the_arrays() -> None:
    for bits, group_size in ((8, 64), (4, 32)):
        form = KVFormat(bits=bits, group_size=group_size)
        for dtype, float_bytes in ((mx.bfloat16, 2), (mx.float32, 4)):
            layer = PreallocatedQuantizedKVCache(form)
            layer.update_and_fetch(keys_of(0, 256).astype(dtype), keys_of(0, 256).astype(dtype))

            taken = sum(array.nbytes for array in kv.arrays([layer]))
            assert taken == form.num_bytes(2 * 2 * 64 * 256 * float_bytes, float_bytes=float_bytes)


@pytest.mark.parametrize(
    ("family", "group_size", "reason"),
    [
        ("gpt_oss", 32, "sinks"),
        ("qwen3", 64, "omit --kv-bits for it, or try another --kv-group-size"),
    ],
)
def test_model_without_quantized_attention_is_refused_with_the_reason(
    family: str, group_size: int, reason: str
) -> None:
    model = load_model(wide_model(family))[0]

    with pytest.raises(ValueError, match=reason):
        check_kv_format(model, KVFormat(bits=8, group_size=group_size))


def test_refused_format_of_a_layer_is_changed_in_its_file() -> None:
    model = load_model(wide_model("qwen3"))[0]

    with pytest.raises(ValueError, match="omit --kv-bits for it, or change them there"):
        check_kv_format(model, ((0, KVFormat(bits=8, group_size=64)),))


def test_model_that_reads_its_cache_directly_is_refused() -> None:
    """Latent attention computes with keys and values itself.

    It cannot with packed ones.
    """
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }
    latent = {
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 32,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "q_lora_rank": 16,
    }
    config = {
        **sizes,
        **latent,
        "model_type": "deepseek_v3",
        "vocab_size": 64,
        "n_routed_experts": None,
        "rope_scaling": None,
    }
    model_class, arguments = _get_classes(config)

    with pytest.raises(ValueError, match="omit --kv-bits for it"):
        check_kv_format(model_class(arguments.from_dict(config)), KVFormat(bits=8, group_size=32))


def test_model_with_sliding_windows_only_is_refused() -> None:
    class Windows:
        def make_cache(self) -> list[RotatingKVCache]:
            return [RotatingKVCache(32)]

    with pytest.raises(ValueError, match="nothing to quantize"):
        check_kv_format(Windows(), FORM)
