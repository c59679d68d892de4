"""The tools of one chat, from several sources."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Literal, Protocol

from mlxctl.ir import TextPart, ToolCallPart, ToolResultPart, ToolSpec

OPENING_SECONDS = 0.3
"""Delay before the chat names the tool servers that are still starting."""

MAX_TOOLS = 128
"""Tools that are offered to a model at most; each takes room in its prompt."""

MAX_NAME = 64
"""Characters of a tool's name at most, as OpenAI's API has it."""
# Names that fit on a small screen.
_MAX_LISTED = 24


def accept_all(call: ToolCallPart) -> bool:  # noqa: ARG001 -- a default of `Tool.accepts`
    """Return True: the source of the tool checks the arguments."""
    return True


def no_caution(call: ToolCallPart) -> str | None:  # noqa: ARG001 -- a default of `Tool.caution`
    """Return None: no call of the tool is exceptional."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the chat can run.

    `origin` names its source to the user. A call of a tool that `needs_approval` runs only after the user
    agreed. `run` takes the call; errors of a call become its result, not exceptions. `accepts` is false for a
    call that would fail without effect; the user is not asked about it. `caution` is a sentence about a call
    that the user has to decide on each time, even if the tool was allowed; None for other calls.
    """

    spec: ToolSpec
    origin: str
    needs_approval: bool
    run: Callable[[ToolCallPart], Awaitable[ToolResultPart]]
    accepts: Callable[[ToolCallPart], bool] = accept_all
    caution: Callable[[ToolCallPart], str | None] = no_caution


Decision = Literal["run", "always", "refuse"]
"""What the user decided about a call; `always`: also for later calls of the tool."""

Confirm = Callable[[ToolCallPart, Tool | None], Awaitable[ToolResultPart | None]]
"""Asks the user about a call; returns None to run it, or the result to send instead."""


class ToolSource(Protocol):
    """A source of tools. Event-loop thread only."""

    @property
    def name(self) -> str:
        """The source as text for the user, also its tools' `origin`."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools; empty before `open` and after a failure."""

    @property
    def problem(self) -> str | None:
        """Why the source has no tools; None without a failure."""

    async def open(self) -> None:
        """Find the tools; a failure is the `problem`, not an exception."""

    async def close(self) -> None:
        """Release everything; safe before `open`."""


class ToolBox:
    """All tools of a chat.

    Of several tools with one name the first keeps it, the others get a number: `NAME_2`.
    """

    def __init__(self, sources: Sequence[ToolSource] = ()) -> None:
        self._sources = sources
        self._allowed: set[str] = set()
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._skipped: list[str] = []
        self._collect()

    async def open(self) -> None:
        """Open all sources at once."""
        await asyncio.gather(*map(self._open, self._sources))
        self._collect()

    async def _open(self, source: ToolSource) -> None:
        self._opening[source.name] = task = asyncio.create_task(source.open())
        try:
            await task
        except asyncio.CancelledError:
            if source.name not in self._skipped:
                raise
        finally:
            del self._opening[source.name]

    def skip_opening(self) -> None:
        """End `open` without the sources that have not answered yet."""
        for name, task in self._opening.items():
            self._skipped.append(name)
            task.cancel()

    @property
    def opening(self) -> str:
        """The sources that `open` is still waiting for; empty without any."""
        first, *others = self._opening or [""]
        return f"{first} and {len(others)} more" if others else first

    def _collect(self) -> None:
        found: dict[str, Tool] = {}
        for source in self._sources:
            for tool in source.tools:
                name = _free_name(tool.spec.name, found)
                found[name] = replace(tool, spec=replace(tool.spec, name=name))
        self._tools: dict[str, Tool] = dict(list(found.items())[:MAX_TOOLS])
        self._num_dropped = len(found) - len(self._tools)

    async def close(self) -> None:
        """Close all sources at once."""
        await asyncio.gather(*(source.close() for source in self._sources))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered to the model."""
        return tuple(tool.spec for tool in self._tools.values())

    @property
    def demo_specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered to the demo model, which handles few.

        Those that need no approval, if there are any.
        """
        harmless = tuple(tool.spec for tool in self._tools.values() if not tool.needs_approval)
        return harmless or self.specs

    @property
    def problems(self) -> list[str]:
        """Sentences about each failed source, and about too many tools."""
        problems = [
            f"{source.problem.rstrip('.')}. The chat continues without it."
            for source in self._sources
            if source.problem is not None
        ]
        problems += [f"{name} is skipped. The chat continues without it." for name in self._skipped]
        if self._num_dropped:
            problems.append(
                f"The first {MAX_TOOLS} tools are offered to the model, {self._num_dropped:,} are left out."
            )
        return problems

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name."""
        return self._tools.get(name)

    def allow(self, name: str) -> None:
        """Run later calls of this tool without asking; cautions still ask."""
        self._allowed.add(name)

    def asks_before(self, call: ToolCallPart, *, asks_always: bool) -> bool:
        """Return whether the user decides on a call.

        With `asks_always` also on one that needs no approval.
        """
        tool = self.find(call.name)
        if tool is not None and not tool.accepts(call):
            return False
        if tool is not None and call.name in self._allowed:
            return tool.caution(call) is not None
        return asks_always or (tool is not None and tool.needs_approval)

    def origin(self, name: str) -> str:
        """Return the source of a tool as text for the screen."""
        tool = self.find(name)
        return "no such tool here" if tool is None else tool.origin

    def describe(self, *, is_offered: bool) -> str:
        """Return the tools by source, the problems, and their state."""
        state = "The model can call them. /tools off turns them off."
        if not is_offered:
            state = "Tools are off. /tools on offers them to the model."
        offered: dict[str, list[str]] = {}
        for tool in self._tools.values():
            offered.setdefault(tool.origin, []).append(tool.spec.name)
        lines = [f"{origin}: {_listed(names)}" for origin, names in offered.items()]
        if waiting := self.opening:
            lines.append(f"{waiting}: starting, its tools come when it is ready")
        return "\n".join([*(lines or ["No tools."]), *self.problems, *([state] if lines else [])])

    @property
    def summary(self) -> str:
        """The sources with their number of tools, on one line."""
        return ", ".join(
            f"{source.name} ({len(source.tools)} tool{'s' * (len(source.tools) != 1)})"
            for source in self._sources
        )

    async def run(self, call: ToolCallPart) -> ToolResultPart:
        """Run a call and return its result.

        An unknown tool is an error result that lists the known ones.
        """
        tool = self.find(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return error_result(call, f"there is no tool {call.name!r}; there are: {known}")
        return await tool.run(call)


def _free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or with a number the first that is free."""
    candidates = chain([name], (f"{name[: MAX_NAME - 4]}_{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


def text_result(call: ToolCallPart, text: str, *, is_error: bool = False) -> ToolResultPart:
    """Return a result of one text."""
    return ToolResultPart(call_id=call.id, content=(TextPart(text=text),), is_error=is_error)


def error_result(call: ToolCallPart, reason: str) -> ToolResultPart:
    """Return the result of a call that failed, for the model."""
    return text_result(call, f"error: {reason}", is_error=True)


def refusal(call: ToolCallPart) -> ToolResultPart:
    """Return the result of a call that the user refused."""
    return text_result(call, "the user refused this call", is_error=True)
