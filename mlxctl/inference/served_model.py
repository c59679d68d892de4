"""What the house offers: a model with its name, its facts, and what it can do. Pure value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlxctl.ir import ModelCapabilities, ModelFacts

NOTHING_KNOWN = ModelCapabilities()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToServe:
    """A model directory that was read and is to be loaded as `name`.

    `capabilities` are what is known of it already, `verdicts` all that was found out, by question; none for one never probed.
    """

    name: str
    facts: ModelFacts
    capabilities: ModelCapabilities = NOTHING_KNOWN
    verdicts: Mapping[str, str] = field(default_factory=dict)
    is_demo: bool = False
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUpPrompt:
    """How long a prompt is, and how much of it would not have to be computed."""

    num_prompt_tokens: int
    num_cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that requests can name. `created` is when it was opened here, in unix seconds; `verdicts` as in ModelToServe."""

    name: str
    facts: ModelFacts
    created: int
    supports_tools: bool
    supports_thinking: bool
    is_demo: bool
    verdicts: Mapping[str, str] = field(default_factory=dict)
