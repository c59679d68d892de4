"""Settings of models: which, where, how many, and how they sample."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlxctl.state.settings.bounds import bounded

KVBits = Literal["full", "8", "4", "config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The model to serve by default."""

    path: Path | None = None
    """Model to use: a directory, or a name or alias of the library.

    Default: the tiny built-in demo model.
    """

    name: str | None = None
    """Name of the model in requests. Default: the name of its directory."""

    probe_unknown: bool = False
    """Probe each named model that has no stored results, before it is loaded. The results are stored."""

    trust_remote_code: bool = False
    """Allow Python code from the model directory to run."""

    kv_bits: KVBits = "full"
    """Bits of the KV cache while a model runs.

    Fewer bits allow longer contexts and change answers slightly. `config`: by layer, from the kv_config.json
    of the model.
    """

    draft: Path | None = None
    """Draft model or MTP head for speculative decoding: a directory, or a name or alias of the library.

    A model with another vocabulary or other sizes is served without it.
    """

    kv_group_size: Literal["32", "64", "128"] = "64"
    """Quantization group size of the KV cache. It must divide the model's head size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySettings:
    """The local model library."""

    models_dirs: tuple[Path, ...] = ()
    """Directories with models, as NAME or ORGANIZATION/NAME."""

    hub_cache: Path | None = None
    """Hugging Face cache to read from and download to. Default: HF_HUB_CACHE, HF_HOME or the usual place."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Further names of models in the library, or of directories.

    A glob (`claude-*-haiku*`) stands for all names in requests that match it and that no model has.
    """

    allow_downloads: bool = False
    """Let clients download models with `POST /downloads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Further models, and how many stay in memory."""

    models: tuple[Path, ...] = ()
    """Further models are loaded at their first request."""

    dirs: tuple[Path, ...] = ()
    """Directory whose models are all served under their names."""

    allow_library: bool = False
    """Serve every model of the local library, including those of the Hugging Face cache and LM Studio."""

    any_model_name: bool | None = None
    """Answer requests that name an unknown model, with the first one for text, speech or transcription.

    Default: if that is the only one that requests can name and the caller's key allows every model.
    """

    preload: bool = False
    """Load every model at start, as far as memory allows. Default: load a model at its first request."""

    max_models: int | None = bounded(None, least=1)
    """Maximum number of models in memory. Default: as many as fit."""

    pins: tuple[str, ...] = ()
    """Model that stays in memory once it is loaded, even if it is idle or others need room."""

    ttl_seconds: float | None = bounded(None, least=0.1)
    """Idle time after which a model is unloaded. Default: it stays until its memory is needed."""

    kv_bits_by_name: dict[str, KVBits] = field(default_factory=dict)
    """KV cache bits of single models, by name. All others use `model.kv_bits`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """Defaults of requests that set nothing else.

    They precede those of the model's own files.
    """

    temperature: float | None = bounded(None, least=0, most=100)
    """Temperature. Default: the model's."""

    top_p: float | None = bounded(None, least=0, most=1)
    """Nucleus sampling. 0 and 1 turn it off. Default: the model's."""

    top_k: int | None = bounded(None, least=-1)
    """Number of most likely tokens to sample from. 0 and -1 turn it off. Default: the model's."""

    min_p: float | None = bounded(None, least=0, most=1)
    """Minimum probability relative to the most likely token. Default: the model's."""

    repetition_penalty: float | None = bounded(None, least=0.001, most=10)
    """Repetition penalty. 1 turns it off. Default: the model's."""

    fallback: bool = True
    """Sample with temperature 0.3 and min_p 0.1 where request, server and model set no value.

    Plain sampling lets small models write noise.
    """

    max_tokens: int | None = bounded(None, least=1)
    """Maximum tokens of an answer. Default: the model's `max_new_tokens`, or up to its context length."""

    seed: int | None = bounded(None, least=0, most=2**63 - 1)
    """Seed. Default: a new one for each request."""

    thinking: Literal["auto", "on", "off"] = "auto"
    """Thinking, for models that have a switch. `auto` leaves it to the model."""

    hlg: bool = False
    """Sample with a tone curve instead of a plain temperature.

    A request with top_p or top_k keeps plain sampling.
    """

    hlg_width: float = bounded(4.0, least=0.001, most=1000.0)
    """Width of the tone curve's middle on both sides of its pivot, in nats."""

    hlg_shoulder: float = bounded(4.0, least=0.001, most=1000.0)
    """Softness of the tone curve above its middle, in nats."""

    hlg_toe: float = bounded(6.0, least=0.001, most=1000.0)
    """Softness of the tone curve below its middle, in nats."""

    hlg_pivot_offset: float = bounded(6.0, least=0.001, most=1000.0)
    """Distance of the tone curve's pivot from the most likely token, in nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSettings:
    """LoRA adapters of the served models."""

    paths: dict[str, Path] = field(default_factory=dict)
    """LoRA adapter of the first model: a directory, or a name of the library. MODEL:NAME=PATH for others."""

    dirs: tuple[Path, ...] = ()
    """Directory below which clients may mount adapters with `POST /v1/adapters`."""

    default: str | None = None
    """Adapter of `paths` for requests to its model that choose none; `a+b` for several.

    A request chooses no adapter with `adapter: "none"` or the model's name with `:none`.
    """

    max_mounted: int = bounded(16, least=0, most=256)
    """Maximum number of adapters. Further ones are refused until one is unmounted."""
