"""A model that requests can name: its files, capabilities and state.

Pure values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.ir import AdapterVerdict, ModelCapabilities, ModelFacts, ModelSpec, ProbeVerdict
from mlxctl.ir.errors import ModelError
from mlxctl.ir.kv_cache_size import KVPrecision
from mlxctl.ir.model_spec import NO_TEXT_OPTIONS, TextModelOptions
from mlxctl.ir.models import ModelState, media_support

UNKNOWN_CAPABILITIES = ModelCapabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """Memory and use of a loaded model.

    A token of a conversation takes `kv_bytes_per_token`, quantized to `kv_bits`; None is the precision of
    the computation, `config` is that of kv_config.json by layer. `idle_seconds` is 0 while the model has
    requests. `loaded_at` is in unix seconds; `num_requests_total` counts the requests since the start of the
    server. `max_safe_context` is the longest conversation that fits into memory alone. `cache_limits` says in
    words what its caches are not used for. It is unloaded after
    `ttl_seconds` without requests, which ends in `seconds_to_expiry`; None is never, and the latter while it
    has requests.
    """

    name: str
    weights_bytes: int
    kv_bytes_per_token: int
    kv_bits: KVPrecision
    num_requests: int
    idle_seconds: float
    is_pinned: bool
    loaded_at: float = 0.0
    load_seconds: float = 0.0
    num_requests_total: int = 0
    max_safe_context: int | None = None
    cache_limits: str | None = None
    seconds_to_expiry: float | None = None
    ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model's files, capabilities and state, under one of its names.

    From its files and the settings: `facts`, `is_demo`, `trust_remote_code`, and the `options` of a text
    model.

    Capabilities: `probed_capabilities` and `verdicts` (by question) come from `mlxctl probe` and overrides,
    empty for a model that was never probed; `is_probed` tells that a probe came to its end. `supports_tools`,
    `supports_thinking` and `adapter_verdict` come from the adapter, None until its tokenizer and template
    were read.

    A model is `from_library` if the settings name it neither by itself nor by its directory.

    State: `problem` is why the last load failed, `memory` is None unless the model is loaded, `created` is
    the start of this server in unix seconds.
    """

    name: str
    facts: ModelFacts
    is_demo: bool = False
    from_library: bool = False
    trust_remote_code: bool = False
    options: TextModelOptions = NO_TEXT_OPTIONS
    probed_capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES
    verdicts: Mapping[str, ProbeVerdict] = field(default_factory=dict)
    is_probed: bool = False
    supports_tools: bool | None = None
    supports_thinking: bool | None = None
    adapter_verdict: AdapterVerdict | None = None
    created: int = 0
    state: ModelState = "not_loaded"
    problem: str | None = None
    is_pinned: bool = False
    memory: ModelMemory | None = None

    @property
    def spec(self) -> ModelSpec:
        """What the engine needs to load the model."""
        return self.facts.spec(self.name, trust_remote_code=self.trust_remote_code, options=self.options)

    @property
    def context_length(self) -> int:
        """Most tokens of prompt and answer together."""
        return self.facts.context_length

    @property
    def scores_pairs(self) -> bool:
        """Whether it is a cross-encoder."""
        return self.facts.embedding is not None and self.facts.embedding.scores_pairs

    @property
    def can_speak(self) -> bool:
        """Whether it speaks text."""
        return self.facts.speech is not None

    @property
    def voices(self) -> tuple[str, ...]:
        """The voices of a speech model."""
        return tuple(self.facts.speech.voices) if self.facts.speech else ()

    @property
    def supports_images(self) -> bool | None:
        """Whether images are accepted; None until the adapter was read."""
        return None if self.adapter_verdict is None else self.adapter_verdict.takes_images

    @property
    def supports_audio(self) -> bool | None:
        """Whether audio is accepted; None until the adapter was read."""
        return None if self.adapter_verdict is None else self.adapter_verdict.takes_audio

    @property
    def media_support(self) -> dict[str, bool | None]:
        """Which media it answers to, by the names of `/v1/models`."""
        is_text = self.facts.purpose == "text"
        # That of the library is only read when it is loaded.
        images = self.facts.vision is not None if self.supports_images is None else self.supports_images
        audio = self.facts.audio is not None if self.supports_audio is None else self.supports_audio
        return media_support(self.verdicts, images=is_text and images, audio=is_text and audio)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableModel:
    """A configured model that cannot be read.

    `reason` names no path, so that it can be sent to clients.
    """

    name: str
    reason: str

    @classmethod
    def because(cls, name: str, error: ModelError) -> "UnusableModel":
        """Create it from the error that reading the model raised."""
        return cls(name=name, reason=error.without_path(name))
