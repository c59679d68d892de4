"""Writes the files of a trained model, as Hugging Face does.

Weights come later: training needs the other files.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .examples import PHRASES, Example, ExpectedCall, curriculum
from .lexicon import WORDS, Lexicon
from .trained_models import TrainedModel

_VOCABULARY_SIZE = 640
_NUM_TOKENIZER_EXAMPLES = 4_000
# A word has the same tokens at every position, so that copying a word is copying tokens.
_PIECES = r"\p{L}+|\p{N}|\s|[^\s\p{L}\p{N}]"


def write_files(spec: TrainedModel, directory: Path) -> dict[str, Any]:
    """Write tokenizer, template and configurations; return config.json's content."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer(spec)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    shutil.copyfile(spec.template, directory / "chat_template.jinja")
    ends = list(
        dict.fromkeys(tokenizer.token_to_id(token) for token in (spec.end_of_answer, spec.end_of_call))
    )
    config = {
        **spec.config,
        "vocab_size": tokenizer.get_vocab_size(),
        "eos_token_id": ends,
        "torch_dtype": "bfloat16",
    }
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", {"eos_token_id": ends, "do_sample": False})
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": spec.bos_token,
        "eos_token": spec.end_of_answer,
        "model_max_length": spec.config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", tokenizer_config)
    return config


def _train_tokenizer(spec: TrainedModel) -> Tokenizer:
    """Train byte-level BPE on the examples.

    The last ids are special tokens, markers, literals and words.
    """
    added = [AddedToken(token, special=True, normalized=False) for token in spec.special_tokens]
    added += [
        AddedToken(token, special=False, normalized=False)
        for token in (*spec.markers, *spec.literals, *PHRASES, *WORDS)
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
    tokenizer.train_from_iterator(_sentences(spec), trainer)
    tokenizer.add_tokens(added)
    return tokenizer


def _sentences(spec: TrainedModel) -> Iterator[str]:
    for example in islice(curriculum(Lexicon(spec.seed + 1)), _NUM_TOKENIZER_EXAMPLES):
        yield from (message.text for message in example.messages)
        yield from (
            f"{tool.name} {tool.description} {' '.join(tool.parameters['properties'])}"
            for tool in example.tools
        )
        yield _completion_text(example)


def _completion_text(example: Example) -> str:
    answer = example.answer
    return (
        f"{answer.name} {' '.join(answer.arguments.values())}" if isinstance(answer, ExpectedCall) else answer
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
