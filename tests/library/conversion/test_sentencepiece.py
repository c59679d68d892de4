"""SentencePiece tokenizers of GGUF files give the ids of the library sentencepiece."""

import io
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from gguf import TokenType
from tokenizers import Tokenizer

from mlxctl.library.conversion.gguf_file import read_gguf
from mlxctl.library.conversion.gguf_tokenizer import convert_tokenizer
from tests import tiny_models
from tests.library.conversion.gguf_files import write_gguf
from tests.tiny_models.vocabulary import sentences

TEXTS = (
    "The ka lomi of the renshi is not what you want.",
    "two  spaces, 123 and   more",
    " leading and trailing ",
    "Größe Привет 你好 🧑‍🚀 e\u0301\n\ttab",
    "a",
    "",
)
# Gemma's tokens of several spaces. No tokenizer has them and a space before every text.
MARKS = {True: ("<mark>",), False: ("<mark>", "▁▁")}


@pytest.fixture(scope="module", params=[True, False], ids=["prefix", "no prefix"])
def processor(request: pytest.FixtureRequest) -> sentencepiece.SentencePieceProcessor:
    """A trained tokenizer, with or without a space before a text."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(sentences(random.Random(3)))[:500]),
        model_writer=file,
        model_type="bpe",
        vocab_size=500,
        byte_fallback=True,
        user_defined_symbols=list(MARKS[request.param]),
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=request.param,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    processor.has_prefix = request.param
    return processor


def metadata(processor: Any, **more: Any) -> dict[str, Any]:
    """Metadata as llama.cpp's converter writes it."""
    numbers = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(number) for number in numbers]
    marks = MARKS[processor.has_prefix]

    def kind(number: int) -> TokenType:
        if pieces[number] in marks:
            return TokenType.USER_DEFINED
        tests = {"is_unknown": "UNKNOWN", "is_control": "CONTROL", "is_unused": "UNUSED", "is_byte": "BYTE"}
        return next(
            (TokenType[name] for test, name in tests.items() if getattr(processor, test)(number)),
            TokenType.NORMAL,
        )

    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [piece.replace("▁", " ") if piece in marks else piece for piece in pieces],
        "tokenizer.ggml.scores": [processor.get_score(number) for number in numbers],
        "tokenizer.ggml.token_type": [int(kind(number)) for number in numbers],
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.bos_token_id": processor.bos_id(),
        "tokenizer.ggml.eos_token_id": processor.eos_id(),
        "tokenizer.ggml.unknown_token_id": processor.unk_id(),
        "tokenizer.ggml.add_space_prefix": processor.has_prefix,
        **more,
    }


def converted(processor: Any, tmp_path: Path, **more: Any) -> Tokenizer:
    file = write_gguf(tiny_models.model("mistral"), tmp_path / "a.gguf", metadata=metadata(processor, **more))
    return Tokenizer.from_str(convert_tokenizer(read_gguf(file)).tokenizer)


def test_ids_and_texts_are_those_of_sentencepiece(processor: Any, tmp_path: Path) -> None:
    tokenizer = converted(processor, tmp_path)
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == processor.encode(text)
        assert tokenizer.decode(ids) == processor.decode(ids)


def test_text_begins_with_the_start_token_unless_the_file_says_no(processor: Any, tmp_path: Path) -> None:
    start = processor.bos_id()
    assert converted(processor, tmp_path).encode("the").ids == [start, *processor.encode("the")]
    plain = converted(processor, tmp_path, **{"tokenizer.ggml.add_bos_token": False})
    assert plain.encode("the").ids == processor.encode("the")


def test_added_token_is_found_in_the_text(processor: Any, tmp_path: Path) -> None:
    ids = converted(processor, tmp_path).encode("the<mark>", add_special_tokens=False).ids
    assert ids == processor.encode("the<mark>")


@pytest.mark.parametrize("processor", [False], indirect=True)
def test_files_of_ollama_have_tokens_of_spaces_as_sentencepiece(processor: Any, tmp_path: Path) -> None:
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    tokenizer = converted(processor, tmp_path, **{"tokenizer.ggml.tokens": pieces})
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == processor.encode(text)
        assert tokenizer.decode(ids) == processor.decode(ids)
