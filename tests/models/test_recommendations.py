"""Recommended models fit the machine by the catalog's published figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.models.machine import Machine
from mlxctl.models.recommendations import read_catalog, recommend, repository_of_short_name

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
        assert context <= model.max_context_tokens


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


def test_a_small_machine_gets_none() -> None:
    assert recommend(replace(MACHINE, usable_bytes=GIB // 2), context_tokens=8192) == []


def test_every_short_name_means_one_repository() -> None:
    meant = {name: entry.repository for entry in read_catalog() for name in entry.short_names}
    assert len(meant) == sum(len(entry.short_names) for entry in read_catalog())
    assert {name: repository_of_short_name(name) for name in meant} == meant


@pytest.mark.parametrize("name", ["qwen3:4b", "qwen3-4b", "Qwen3-4B", "Qwen3-4B-4bit"])
def test_a_short_name_is_found_in_every_spelling(name: str) -> None:
    assert repository_of_short_name(name) == "mlx-community/Qwen3-4B-4bit"


@pytest.mark.parametrize("name", ["mlx-community/Qwen3-4B-4bit", "org/qwen3-4b", "qwen3:5b", ""])
def test_other_names_are_no_short_names(name: str) -> None:
    assert repository_of_short_name(name) is None
