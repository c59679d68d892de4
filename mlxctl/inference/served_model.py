"""What the house offers: a model with its name, its facts, and what it can do. Pure value."""

from dataclasses import dataclass

from mlxctl.ir import ModelFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToServe:
    """A model directory that was read and is to be loaded as `name`."""

    name: str
    facts: ModelFacts
    is_demo: bool = False
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that requests can name. `created` is when it was opened here, in unix seconds."""

    name: str
    facts: ModelFacts
    created: int
    supports_tools: bool
    supports_thinking: bool
    is_demo: bool
