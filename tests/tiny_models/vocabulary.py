"""The tokenizer of a generated model: byte-level BPE, so any text round-trips."""

import random
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from .families import Family

_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ren",
    "su",
    "ta",
    "vo",
    "shi",
    "par",
    "dun",
    "el",
    "or",
    "in",
    "est",
    "ba",
    "qui",
)
_LITTLE = (
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "for",
    "with",
    "on",
    "who",
    "what",
    "not",
    "you",
    "we",
)
_NUM_SENTENCES = 3_000


def train_tokenizer(family: Family) -> Tokenizer:
    """Train a tokenizer of exactly `family.vocab_size` entries.

    Special tokens and markers have the last ids.
    """
    added = [AddedToken(token, special=True, normalized=False) for token in family.special_tokens]
    added += [AddedToken(token, special=False, normalized=False) for token in family.markers]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=family.vocab_size - len(added),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(random.Random(family.seed)), trainer)
    tokenizer.add_tokens(added)
    num_tokens = tokenizer.get_vocab_size()
    assert num_tokens == family.vocab_size, f"{family.name}: {num_tokens} tokens, not {family.vocab_size}"
    return tokenizer


def sentences(dice: random.Random) -> Iterator[str]:
    """Yield generated sentences for tokenizer training."""
    for _ in range(_NUM_SENTENCES):
        words = [_word(dice) for _ in range(dice.randint(4, 12))]
        yield " ".join(words).capitalize() + dice.choice(".!?")


def _word(dice: random.Random) -> str:
    if dice.random() < 0.4:
        return dice.choice(_LITTLE)
    return "".join(dice.choices(_SYLLABLES, k=dice.randint(1, 3)))
