"""Tiny models for tests, which `mlx_lm.load` takes as it takes any other.

`model(name)` gives the directory of one with random weights: structure without ability. They are made when first asked for and kept
outside the repository (see `shelf`); `NAMES` says which of them write text, `SEER_NAMES` which see, too, "embedder" embeds.
`encoder(name)` gives one of `ENCODER_NAMES`, whose tokens see the whole text (see `encoders`). `trained(name)` gives one that was
taught to call tools (see `train`), to name colours, `rowan` and `linden` (see `colour_namer`), or to write down what it hears,
`aspen` (see `word_writer`); these lie in the repository. Another model that really answers is the demo model of the package.
"""

from pathlib import Path

from .families import FAMILIES
from .shelf import shelved, shelved_encoder

NAMES = tuple(name for name, family in FAMILIES.items() if not (family.headless or family.sees))
SEER_NAMES = tuple(name for name, family in FAMILIES.items() if family.sees)
ENCODER_NAMES = ("bert", "xlm_roberta", "modernbert", "embeddinggemma")
TRAINED_NAMES = ("alder", "birch", "cedar", "elm", "fir", "hazel", "willow")


def model(name: str) -> Path:
    """Give the directory of the forged model `name`, making it first if need be.

    Raises KeyError if there is no such recipe.
    """
    return shelved(FAMILIES[name])


def encoder(name: str) -> Path:
    """Give the directory of the forged encoder `name`, making it first if need be; `bert_bench` is a larger one, for measuring.

    Raises KeyError for another name.
    """
    return shelved_encoder(name)


def trained(name: str) -> Path:
    """Give the directory of the trained model `name`, a tree; `trained/ABILITIES.md` says what each can do."""
    return Path(__file__).parent / "trained" / name


__all__ = ["ENCODER_NAMES", "NAMES", "SEER_NAMES", "TRAINED_NAMES", "encoder", "model", "trained"]
