"""The files of a trained model, as Hugging Face lays them out: first all but the weights, which training
needs itself.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .examples import PHRASES, Call, Lesson, curriculum
from .lexicon import WORDS, Lexicon
from .students import Student

_VOCABULARY_SIZE = 640
_NUM_TOKENIZER_LESSONS = 4_000
# A word is the same tokens wherever it stands, so that copying a word is copying tokens.
_PIECES = r"\p{L}+|\p{N}|\s|[^\s\p{L}\p{N}]"


def write_files(student: Student, directory: Path) -> dict[str, Any]:
    """Write tokenizer, template and configurations; return config.json's content."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer(student)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    shutil.copyfile(student.template, directory / "chat_template.jinja")
    ends = list(
        dict.fromkeys(tokenizer.token_to_id(token) for token in (student.end_of_answer, student.end_of_call))
    )
    config = {
        **student.config,
        "vocab_size": tokenizer.get_vocab_size(),
        "eos_token_id": ends,
        "torch_dtype": "bfloat16",
    }
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", {"eos_token_id": ends, "do_sample": False})
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": student.bos_token,
        "eos_token": student.end_of_answer,
        "model_max_length": student.config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", tokenizer_config)
    return config


def _train_tokenizer(student: Student) -> Tokenizer:
    """Byte-level BPE over what the lessons say; the last ids are the special tokens, the markers, the
    stretches and words.
    """
    added = [AddedToken(token, special=True, normalized=False) for token in student.special_tokens]
    added += [
        AddedToken(token, special=False, normalized=False)
        for token in (*student.markers, *student.stretches, *PHRASES, *WORDS)
    ]
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_SIZE - len(added), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_sentences(student), trainer)
    tokenizer.add_tokens(added)
    return tokenizer


def _sentences(student: Student) -> Iterator[str]:
    for lesson in islice(curriculum(Lexicon(student.seed + 1)), _NUM_TOKENIZER_LESSONS):
        yield from (message.text for message in lesson.messages)
        yield from (
            f"{tool.name} {tool.description} {' '.join(tool.parameters['properties'])}"
            for tool in lesson.tools
        )
        yield _said(lesson)


def _said(lesson: Lesson) -> str:
    answer = lesson.answer
    return f"{answer.name} {' '.join(answer.arguments.values())}" if isinstance(answer, Call) else answer


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
