"""Tiny models for tests, in the format that `mlx_lm.load` reads.

`model(name)` is a generated model with random weights, of `NAMES` (text), `VISION_NAMES` (images too),
`VLM_TEXT_NAMES` (text, of classes that only mlx-vlm has), `RANK_NAMES` (text, for several ranks, of which
`PIPELINE_NAMES` may share layers) or "embedder". `encoder(name)` is a generated
encoder of `ENCODER_NAMES`, `speech(name)` a generated speech model of `SPEECH_NAMES`. They are built at the
first use and cached outside the repository (see `directory_cache`). `trained(name)` is a trained model of the
repository: tool calls (see `train`), colors of images (`pixtral_colors`, `qwen2_5_vl_colors`; see
`color_vision`), transcription (`whisper_words`), speech (`soprano_words`). The demo model of the package is
trained too.
"""

from pathlib import Path

from .directory_cache import cached_directory, cached_encoder_directory, cached_speech_directory
from .families import FAMILIES, RANKED
from .hearers import HEARERS
from .newer_seers import NEWER_SEERS
from .seers import SEERS
from .vlm_text import VLM_TEXT

NAMES = tuple(name for name, family in FAMILIES.items() if not (family.headless or family.sees))
SEER_NAMES = tuple(family.name for family in (*SEERS, *NEWER_SEERS))
HEARER_NAMES = ("gemma4_seer", "phi4mm", "gemma3n_seer", *(family.name for family in HEARERS))
VISION_NAMES = tuple(name for name, family in FAMILIES.items() if family.sees)
PIPELINE_NAMES = tuple(family.name for family in RANKED)
RANK_NAMES = ("llama3", "qwen3", "gpt_oss", *PIPELINE_NAMES)
VLM_TEXT_NAMES = tuple(VLM_TEXT)
ENCODER_NAMES = ("bert", "xlm_roberta", "modernbert", "embeddinggemma", "llama_bidirec")
CROSS_ENCODER_NAMES = ("bert_scorer", "xlm_roberta_scorer", "modernbert_scorer")
SPEECH_NAMES = ("qwen3_tts", "qwen3_tts_design", "qwen3_tts_base", "soprano", "pocket_tts")
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
    """Return the directory of a generated model, built at the first use.

    Raises KeyError for an unknown name.
    """
    return cached_directory(
        (FAMILIES | VLM_TEXT | {family.name: family for family in (*SEERS, *NEWER_SEERS, *HEARERS, *RANKED)})[
            name
        ]
    )


def encoder(name: str) -> Path:
    """Return the directory of a generated encoder, built at the first use.

    `bert_bench` is a larger one, for benchmarks. Raises KeyError for an unknown name.
    """
    return cached_encoder_directory(name)


def speech(name: str) -> Path:
    """Return a generated speech model, built at the first use.

    It is one of `SPEECH_NAMES`. Raises KeyError for an unknown name.
    """
    return cached_speech_directory(name)


def trained(name: str) -> Path:
    """Return the directory of a trained model; `trained/ABILITIES.md` has its abilities."""
    return Path(__file__).parent / "trained" / name


__all__ = [
    "CROSS_ENCODER_NAMES",
    "ENCODER_NAMES",
    "NAMES",
    "PIPELINE_NAMES",
    "RANK_NAMES",
    "SEER_NAMES",
    "SPEECH_NAMES",
    "TRAINED_NAMES",
    "VISION_NAMES",
    "VLM_TEXT_NAMES",
    "encoder",
    "model",
    "speech",
    "trained",
]
