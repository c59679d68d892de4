"""Tiny models for tests, which `mlx_lm.load` takes as it takes any other.

`model(name)` gives the directory of one with random weights: structure without ability. They are made when
first asked for and kept outside the repository (see `shelf`); `NAMES` says which of them write text,
`VISION_NAMES` which see, too, "embedder" embeds. `encoder(name)` gives one of `ENCODER_NAMES`, whose tokens
see the whole text (see `encoders`). `trained(name)` gives one that was taught to call tools (see `train`), to
name colors, `pixtral_colors` and `qwen2_5_vl_colors` (see `color_namer`), or to write down what it hears,
`whisper_words` (see `word_writer`); these lie in the repository. Another model that really answers is the
demo model of the package.
"""

from pathlib import Path

from .directory_cache import cached_directory, cached_encoder_directory
from .families import FAMILIES

NAMES = tuple(name for name, family in FAMILIES.items() if not (family.headless or family.sees))
VISION_NAMES = tuple(name for name, family in FAMILIES.items() if family.sees)
ENCODER_NAMES = ("bert", "xlm_roberta", "modernbert", "embeddinggemma")
TRAINED_NAMES = (
    "qwen3_tools",
    "glm4_tools",
    "llama_json_tools",
    "lfm2_tools",
    "mistral_tools",
    "llama_coder_tools",
    "llama_false_tools",
)


def model(name: str) -> Path:
    """Give the directory of the forged model `name`, making it first if need be.

    Raises KeyError if there is no such recipe.
    """
    return cached_directory(FAMILIES[name])


def encoder(name: str) -> Path:
    """Give the directory of the forged encoder `name`, making it first if need be; `bert_bench` is a larger
    one, for measuring.

    Raises KeyError for another name.
    """
    return cached_encoder_directory(name)


def trained(name: str) -> Path:
    """Give the directory of the trained model `name`, a tree; `trained/ABILITIES.md` says what each can do."""
    return Path(__file__).parent / "trained" / name


__all__ = ["ENCODER_NAMES", "NAMES", "TRAINED_NAMES", "VISION_NAMES", "encoder", "model", "trained"]
