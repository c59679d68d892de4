"""Rules that send requests elsewhere. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from mlxctl.inference.call_context import CallContext
from mlxctl.ir import GenerationRequest, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from mlxctl.ir.errors import (
    CapacityError,
    ContextOverBudget,
    ContextTooLong,
    DeadlineExceeded,
    EngineError,
    EngineRecovering,
    MemoryShortage,
    MlxctlError,
    NoRoomForModel,
    RequestCancelled,
)
from mlxctl.ir.messages import Part
from mlxctl.state.settings import RouteSettings

LOCAL = "local"
ANY_REMOTE = ""
_TOO_LARGE = (NoRoomForModel, ContextOverBudget, ContextTooLong, MemoryShortage)
_NEAR_FAILURES = (EngineError, EngineRecovering)
# A remote that is busy, or that is not asked for now, cannot answer either.
_FAR_FAILURES = (EngineError, CapacityError)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    `server` is the name of a remote or ANY_REMOTE, None this machine.
    """

    server: str | None
    model: str

    @property
    def route(self) -> str:
        """What header, logs and audit show: `local`, or `remote:NAME`."""
        return LOCAL if self.server is None else remote_route(self.server)


def remote_route(name: str) -> str:
    """Return the route of requests to a remote."""
    return f"remote:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules in force, in order; the first one whose conditions hold counts."""

    rules: tuple[RouteSettings, ...] = ()

    def needs_size(self, model: str) -> bool:
        """Whether a decision about the model needs the size of the prompt."""
        return any(rule.min_prompt_bytes and fnmatchcase(model, rule.model) for rule in self.rules)

    def first(self, model: str, *, num_bytes: int, call: CallContext) -> Target | None:
        """Return where a request goes first, None if no rule says it."""
        return next(iter(self._targets(("always",), model, num_bytes, call)), None)

    def after(
        self, error: MlxctlError, model: str, *, num_bytes: int, call: CallContext, is_remote: bool
    ) -> Target | None:
        """Return where a request goes after a failure, None for nowhere."""
        if not is_remote and isinstance(error, _TOO_LARGE):
            kinds: tuple[str, ...] = ("no_memory", "failure")
        elif isinstance(error, _FAR_FAILURES if is_remote else _NEAR_FAILURES) and not isinstance(
            error, RequestCancelled | DeadlineExceeded
        ):
            kinds = ("failure",)
        else:
            return None
        return next(iter(self._targets(kinds, model, num_bytes, call)), None)

    def _targets(
        self, when: tuple[str, ...], model: str, num_bytes: int, call: CallContext
    ) -> Iterable[Target]:
        for rule in self.rules:
            kind = "local" if rule.to == LOCAL else "remote"
            target = Target(None if kind == "local" else rule.to, rule.use or model)
            if (
                rule.when in when
                and fnmatchcase(model, rule.model)
                and num_bytes >= (rule.min_prompt_bytes or 0)
                and call.pin in (None, kind)
                # SEC: a rule gives no caller a model that its key does not allow.
                and (kind == "local" or target.model in call.models)
            ):
                yield target


def prompt_bytes(request: GenerationRequest) -> int:
    """Return the size of texts and tool definitions in UTF-8. Any thread."""
    tools = sum(
        len(tool.description.encode()) + len(msgspec.json.encode(tool.parameters)) for tool in request.tools
    )
    parts = (part for message in request.messages for part in message.parts)
    return tools + sum(map(_part_bytes, parts))


def _part_bytes(part: Part) -> int:
    match part:
        case TextPart() | ThinkingPart():
            return len(part.text.encode())
        case ToolCallPart():
            return len(part.arguments.encode())
        case ToolResultPart():
            return sum(map(_part_bytes, part.content))
        case _:
            return 0
