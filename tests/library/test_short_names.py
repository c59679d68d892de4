"""Short names and pasted addresses of models."""

from collections import Counter

import pytest

from mlxctl.ir.errors import DownloadFailed
from mlxctl.library.hub import check_repository
from mlxctl.library.names import is_repository, plain_name
from mlxctl.library.recommendations import read_catalog
from mlxctl.library.short_names import (
    full_name,
    near_short_names,
    read_short_names,
    repository_of_short_name,
    spellings,
)


def test_every_short_name_means_one_repository_and_each_recommended_model_has_one() -> None:
    table = read_short_names()
    assert all(is_repository(repository) and "/" in repository for repository in table)
    names = Counter(name for names in table.values() for name in names)
    assert max(names.values()) == 1
    for repository, own in table.items():
        assert {repository_of_short_name(name) for name in spellings(repository, own)} == {repository}
    assert {entry.repository for entry in read_catalog() if not entry.is_for_cpu} <= table.keys()


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("qwen3:4b", "Qwen3-4B-4bit"),
        ("Qwen3-4B", "Qwen3-4B-4bit"),
        ("qwen3-4b-4bit", "Qwen3-4B-4bit"),
        ("qwen3:latest", "Qwen3-8B-4bit"),
        ("gemma3:12b", "gemma-3-12b-it-qat-4bit"),
        ("gemma-3-12b", "gemma-3-12b-it-qat-4bit"),
        ("gemma-3-12b-it", "gemma-3-12b-it-qat-4bit"),
        ("gemma-3", "gemma-3-4b-it-qat-4bit"),
        ("llama3.1:8b", "Meta-Llama-3.1-8B-Instruct-4bit"),
        ("Llama-3.1-8B-Instruct", "Meta-Llama-3.1-8B-Instruct-4bit"),
        ("llama-8b", "Meta-Llama-3.1-8B-Instruct-4bit"),
        ("gpt-oss-20b", "gpt-oss-20b-MXFP4-Q8"),
        ("qwen2.5-coder", "Qwen2.5-Coder-7B-Instruct-4bit"),
    ],
)
def test_a_short_name_is_found_in_every_spelling(name: str, repository: str) -> None:
    assert repository_of_short_name(name) == f"mlx-community/{repository}"


@pytest.mark.parametrize(
    "name", ["mlx-community/Qwen3-4B-4bit", "org/qwen3-4b", "qwen3:5b", "qwen:34b", "qwen3-4b-8bit", "", ":"]
)
def test_other_names_are_no_short_names(name: str) -> None:
    assert repository_of_short_name(name) is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gemma3:9b", ["gemma3:1b", "gemma3:4b", "gemma3:12b", "gemma3:27b"]),
        ("gemma-3-9b", ["gemma3:1b", "gemma3:4b", "gemma3:12b", "gemma3:27b"]),
        ("qwen4:9b", ["qwen3:8b", "qwen3.8:27b", "qwen3.6:27b", "qwen3.5:9b"]),
        ("gpt-4o", ["gpt-oss"]),
        ("smollm", ["smollm3", "smollm2"]),
        ("claude-sonnet-4", []),
        ("", []),
    ],
)
def test_unknown_names_get_those_of_the_family_or_of_families_alike(name: str, near: list[str]) -> None:
    assert near_short_names(name) == near


def test_name_that_no_repository_can_have_gets_names_near_it() -> None:
    with pytest.raises(DownloadFailed, match=r"ORGANIZATION/NAME; short names near it: gemma3:1b, "):
        check_repository("gemma3:9b")


@pytest.mark.parametrize(
    "address",
    [
        "https://huggingface.co/acme/Small-4bit",
        "https:/huggingface.co/acme/Small-4bit/",
        "HTTP://www.HuggingFace.co/acme/Small-4bit/tree/main?x=1#y",
        "https://huggingface.co/acme/Small-4bit/resolve/main/model.safetensors?download=true",
        "https://huggingface.co/acme/Small-4bit/discussions/3",
        "https://huggingface.co/api/models/acme/Small-4bit",
        "https://huggingface.co/acme/Small-4bit.git",
        "git@hf.co:acme/Small-4bit.git",
        "https://me:secret@hf.co/acme/Small-4bit",
        "hf.co/acme/Small-4bit:Q4_K_M",
        "huggingface.co/acme/Small-4bit",
        "hf://acme/Small-4bit@main/config.json",
        "https://huggingface.co:443/acme/Small-4bit",
        "<https://hf.co/acme/Small-4bit>",
        "models--acme--Small-4bit/",
        "/nowhere/hub/models--acme--Small-4bit/snapshots/0123abc",
        " acme/Small-4bit/ ",
    ],
)
def test_pasted_addresses_are_their_repository(address: str) -> None:
    assert plain_name(address) == full_name(address) == "acme/Small-4bit"


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/datasets/acme/d",
        "https://huggingface.co/acme/Small-4bit/tree/v2",
        "hf://acme/Small-4bit@v2",
        "https://github.com/acme/Small-4bit",
        "https://huggingface.co/../..",
        "hf.company/model",
        "./acme/model",
        "/models/acme",
        "datasets--acme--d",
    ],
)
def test_other_texts_are_unchanged(text: str) -> None:
    assert plain_name(text) == text
