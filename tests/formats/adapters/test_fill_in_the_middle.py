"""Prompts with a suffix have their family's tokens, in its order."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlxctl.ir import GenerationRequest
from mlxctl.ir.errors import ContextTooLong, InvalidRequest

from .directories import adapter_of, write_model
from .tokenizers_in_code import byte_level

QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>")


def between(prefix: str, suffix: str) -> GenerationRequest:
    return GenerationRequest(model="small", prompts=(prefix,), suffix=suffix)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (QWEN, ["<|fim_prefix|>", "a = ", "<|fim_suffix|>", "\nb", "<|fim_middle|>"]),
        (("[PREFIX]", "[SUFFIX]"), ["[SUFFIX]", "\nb", "[PREFIX]", "a = "]),
        (
            ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
            ["<｜fim▁begin｜>", "a = ", "<｜fim▁hole｜>", "\nb", "<｜fim▁end｜>"],
        ),
    ],
)
def test_prompt_has_the_tokens_of_the_family(
    tmp_path: Path, tokens: tuple[str, ...], expected: list[str]
) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=byte_level(tokens)))
    prepared = adapter.prepare_text(between("a = ", "\nb"), "a = ")
    ids = [token_id for part in expected for token_id in adapter.vocabulary.encode(part)]
    assert list(prepared.token_ids) == ids
    assert {adapter.vocabulary.id_of(token) for token in tokens} <= prepared.stop_token_ids


@pytest.mark.parametrize(("keeps_start", "rest"), [(False, "4567"), (True, "0123")])
def test_long_prefix_is_shortened_within_its_tokens(tmp_path: Path, keeps_start: bool, rest: str) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=byte_level(QWEN)))
    whole = adapter.prepare_text(between("01234567", "\nb"), "01234567").token_ids
    shorter = replace(
        between("01234567", "\nb"), max_prompt_tokens=len(whole) - 4, keeps_prompt_start=keeps_start
    )
    expected = adapter.prepare_text(between(rest, "\nb"), rest).token_ids
    assert adapter.prepare_text(shorter, "01234567").token_ids == expected


def test_model_without_the_tokens_refuses_a_suffix(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=byte_level(QWEN[:2])))
    with pytest.raises(InvalidRequest) as caught:
        adapter.prepare_text(between("a", "b"), "a")
    assert caught.value.param == "suffix"


def test_long_suffix_is_refused_by_its_length(tmp_path: Path) -> None:
    adapter = adapter_of(write_model(tmp_path, tokenizer=byte_level(QWEN)))
    with pytest.raises(ContextTooLong):
        adapter.prepare_text(between("a", "b c " * 2_000_000), "a")
