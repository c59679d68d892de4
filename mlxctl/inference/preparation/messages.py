"""What the front tells a preparation process, and what that answers. Pure values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.adapters import RequestDefaults
from mlxctl.adapters.tokens.encoded_segments import EncodedSegment
from mlxctl.errors import MlxctlError
from mlxctl.ir import ModelCapabilities, ModelFacts

_MAX_QUOTED_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Become two processes: the new one serves the socket that comes with this, and answers there with its
    process id.

    `niceness` is by how much it gives way to others.
    """

    niceness: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Read a model's tokenizer and template, and answer with what reads its answers."""

    name: str
    facts: ModelFacts
    capabilities: ModelCapabilities
    request_defaults: RequestDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGrammarVocabulary:
    """Make ready to compile grammars for a model."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Let a model go. Has no answer."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """Know the ids of answers of a model. Has no answer."""

    name: str
    segments: Sequence[EncodedSegment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Answer with what a function returns; that of a model gets its adapter before all other arguments.

    The process ends if that takes more than `cpu_seconds`.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    model: str | None = None
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process is there. `memory_bytes` is what it holds by now."""

    pid: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was asked for is done."""

    value: Any
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An error of ours, in parts: not every exception can be made again from its arguments."""

    kind: type[MlxctlError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: MlxctlError) -> "Raised":
        """Take an error apart; what it quotes of a request may be long, and is cut."""
        attributes = {name: _cut(value) for name, value in vars(error).items()}
        return cls(kind=type(error), arguments=tuple(map(_cut, error.args)), attributes=attributes)

    def error(self) -> MlxctlError:
        """Put it together again."""
        made = self.kind.__new__(self.kind, *self.arguments)
        made.args = self.arguments
        vars(made).update(self.attributes)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """A mistake of ours or of a library: `reason` in a line, and where.

    A native one is a panic of a library.
    """

    reason: str
    traceback: str
    is_native: bool


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _MAX_QUOTED_CHARS
    return f"{value[:_MAX_QUOTED_CHARS]} ..." if is_long else value
