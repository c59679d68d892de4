"""Commands to preparation processes, and their replies. Pure values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.formats.adapters import RequestDefaults
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegment
from mlxctl.ir import ModelCapabilities, ModelFacts
from mlxctl.ir.errors import MlxctlError

_MAX_QUOTED_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Asks for a new preparation process.

    The new process serves the socket that comes with this and replies there. `niceness` lowers its priority.
    """

    niceness: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Create a model's adapter, and reply with its answer reader."""

    name: str
    facts: ModelFacts
    capabilities: ModelCapabilities
    request_defaults: RequestDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGrammarVocabulary:
    """Read a model's vocabulary for compiling grammars."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAdapter:
    """Drop a model's adapter. No reply."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAnswers:
    """Store token ids of a model's answers. No reply."""

    name: str
    segments: Sequence[EncodedSegment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call a function and reply its result.

    The adapter of `model` is its first argument, if given. The process ends if that takes more than
    `cpu_seconds`.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    model: str | None = None
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process has started; `memory_bytes` is its memory."""

    pid: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command has succeeded."""

    value: Any
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An MlxctlError in parts.

    Not every exception can be created from its arguments.
    """

    kind: type[MlxctlError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: MlxctlError) -> "Raised":
        """Take an error apart; long quotes of a request are cut."""
        attributes = {name: _cut(value) for name, value in vars(error).items()}
        return cls(kind=type(error), arguments=tuple(map(_cut, error.args)), attributes=attributes)

    def error(self) -> MlxctlError:
        """Create the error again."""
        made = self.kind.__new__(self.kind, *self.arguments)
        made.args = self.arguments
        vars(made).update(self.attributes)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """An unexpected exception: `reason` in one line, and the traceback.

    `is_native` is a panic of a native library.
    """

    reason: str
    traceback: str
    is_native: bool


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _MAX_QUOTED_CHARS
    return f"{value[:_MAX_QUOTED_CHARS]} ..." if is_long else value
