"""What the house offers: a model with its name, its facts, and what it can do. Pure value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.errors import ModelError
from mlxctl.ir import AdapterVerdict, KVFormat, ModelCapabilities, ModelFacts, ProbeVerdict
from mlxctl.ir.models import ModelState

UNKNOWN_CAPABILITIES = ModelCapabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToServe:
    """A model directory that was read and is to be loaded as `name`.

    `capabilities` are what is known of it already, `verdicts` all that was found out, by question; none for
    one never probed. `kv_format` is how its keys and values are to be kept while it runs.
    """

    name: str
    facts: ModelFacts
    capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES
    verdicts: Mapping[str, ProbeVerdict] = field(default_factory=dict)
    is_demo: bool = False
    trust_remote_code: bool = False
    kv_format: KVFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableModel:
    """A model that was registered and cannot be read; the reason names no path, so that anybody may know it."""

    name: str
    reason: str

    @classmethod
    def because(cls, name: str, error: ModelError) -> "UnusableModel":
        """Return what is to be said of a model that failed."""
        return cls(name=name, reason=error.without_path(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUpPrompt:
    """How long a prompt is, and how much of it would not have to be computed."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_tokens_on_disk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A name that requests can give, and the model behind it.

    `created` is when it was opened here, in unix seconds.

    What it supports, and its adapter's verdict, is None before its files were looked at. `problem` is why it
    could not be loaded the last time; `verdicts` as in ModelToServe.
    """

    name: str
    facts: ModelFacts
    created: int
    supports_tools: bool | None
    supports_thinking: bool | None
    adapter_verdict: AdapterVerdict | None
    is_demo: bool
    state: ModelState
    problem: str | None = None
    is_pinned: bool = False
    verdicts: Mapping[str, ProbeVerdict] = field(default_factory=dict)
