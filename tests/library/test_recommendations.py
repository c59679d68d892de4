"""Recommended models fit the machine by the catalog's published figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.library.machine import Machine
from mlxctl.library.recommendations import read_catalog, recommend

GIB = 2**30
MACHINE = Machine(
    chip="Apple M4 Pro",
    memory_bytes=24 * GIB,
    usable_bytes=16 * GIB,
    is_exact=True,
    has_metal=True,
    bandwidth_bytes_per_second=273e9,
)


@given(st.integers(1, 512), st.sampled_from([1024, 8192, 32_768, 131_072]))
def test_every_recommended_model_fits_memory_and_its_own_context(gigabytes: int, context: int) -> None:
    machine = replace(MACHINE, usable_bytes=gigabytes * GIB)
    for model in recommend(machine, context_tokens=context):
        assert model.needed_bytes <= machine.usable_bytes
        assert model.max_context_tokens is None or context <= model.max_context_tokens


def test_the_largest_that_fits_comes_first() -> None:
    names = [model.repository for model in recommend(MACHINE, context_tokens=8192)]
    assert names[0] == "mlx-community/gpt-oss-20b-MXFP4-Q8"
    assert "mlx-community/Qwen3-30B-A3B-4bit" not in names


def test_the_speed_is_bandwidth_by_active_bytes() -> None:
    (entry,) = [entry for entry in read_catalog() if entry.repository.endswith("Qwen3-8B-4bit")]
    (model,) = [
        found for found in recommend(MACHINE, context_tokens=8192) if found.repository == entry.repository
    ]
    assert model.max_tokens_per_second == pytest.approx(273e9 / (8.2e9 * 4.5 / 8))


def test_a_cpu_gets_the_small_models_in_16_bits_and_a_mac_others() -> None:
    cpu = replace(MACHINE, computes_on_cpu=True, has_metal=False, bandwidth_bytes_per_second=None)
    small = {entry.repository: entry for entry in read_catalog() if entry.is_for_cpu}
    written = {name for name, entry in small.items() if not entry.is_audio}
    names = [model.repository for model in recommend(cpu, context_tokens=8192)]
    assert set(names) == set(small)
    assert max(entry.parameters for entry in small.values()) < 1
    assert written.isdisjoint(model.repository for model in recommend(MACHINE, context_tokens=8192))


def test_models_for_audio_are_recommended_whatever_the_context() -> None:
    found = {model.repository: model for model in recommend(MACHINE, context_tokens=1_000_000)}
    assert {"Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice", "mlx-community/parakeet-tdt-0.6b-v3"} <= found.keys()
    assert {(model.max_context_tokens, model.max_tokens_per_second) for model in found.values()} == {
        (None, None)
    }


def test_a_small_machine_gets_none() -> None:
    assert recommend(replace(MACHINE, usable_bytes=GIB // 10), context_tokens=8192) == []
