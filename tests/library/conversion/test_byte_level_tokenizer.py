"""Byte-level tokenizers of GGUF files split texts as llama.cpp does."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mlxctl.library.conversion.gguf_file import read_gguf
from mlxctl.library.conversion.gguf_tokenizer import convert_tokenizer
from tests import tiny_models
from tests.library.conversion.gguf_files import write_gguf

TEXT = "We'LL pay 12345 for HelloWorld/\n\n  it's"
GPT2_END = "Ġfor ĠHelloWorld / ĊĊĠ Ġit 's"
WORDS = {
    "llama-bpe": "We 'LL Ġpay Ġ 123 45 Ġfor ĠHelloWorld /ĊĊ Ġ Ġit 's",
    "qwen2": "We 'LL Ġpay Ġ 1 2 3 4 5 Ġfor ĠHelloWorld /ĊĊ Ġ Ġit 's",
    "tekken": "We 'LL Ġpay Ġ 1 2 3 4 5 Ġfor ĠHello World /ĊĊ Ġ Ġit 's",
    "smollm": f"We ' LL Ġpay Ġ 1 2 3 4 5 {GPT2_END}",
    "gpt-2": f"We ' LL Ġpay Ġ12345 {GPT2_END}",
}


def tokenizer(tmp_path: Path, pre: str, **metadata: object) -> Tokenizer:
    file = write_gguf(tiny_models.model("llama3"), tmp_path / "a.gguf", pre=pre, metadata=metadata)
    return Tokenizer.from_str(convert_tokenizer(read_gguf(file)).tokenizer)


@pytest.mark.parametrize("pre", WORDS)
def test_text_is_split_as_the_pre_tokenizer_says(pre: str, tmp_path: Path) -> None:
    words = tokenizer(tmp_path, pre).pre_tokenizer.pre_tokenize_str(TEXT)
    assert " ".join(word for word, _ in words) == WORDS[pre]


def test_qwen_composes_characters(tmp_path: Path) -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    qwen, llama = tokenizer(tmp_path, "qwen2"), tokenizer(tmp_path, "llama-bpe")
    assert qwen.encode(decomposed).ids == qwen.encode(composed).ids
    assert llama.encode(decomposed).ids != llama.encode(composed).ids


@pytest.mark.parametrize(
    ("pre", "value", "adds"), [("llama-bpe", None, True), ("gpt-2", None, False), ("gpt-2", True, True)]
)
def test_start_token_is_added_as_the_file_or_llama_cpp_says(
    pre: str, value: bool | None, adds: bool, tmp_path: Path
) -> None:
    found = tokenizer(tmp_path, pre, **{"tokenizer.ggml.add_bos_token": value})
    assert (found.encode("a").tokens[0] == "<|begin_of_text|>") is adds
