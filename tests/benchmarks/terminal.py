"""Responsiveness of `mlxctl chat`: first frame and longest UI stalls."""

import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from mlxctl.chat.app import ChatApp
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.widgets.status_line import StatusLine
from mlxctl.ir import Finished, GenerationRequest, StreamEvent, TextDelta, Usage, text_message
from tests.benchmarks.rounds import Finding, Ratio
from tests.chat.scripted_backend import ScriptedBackend

_TOKENS_PER_SECOND = 200
_SECONDS = 4
_HEARTBEAT_SECONDS = 0.005
_LONG_TOKENS = 50_000
_TURN_TOKENS = 1_000
_TOKEN_CHARACTERS = 4
_NUM_PAGES = 30
_FIRST_WORDS = b"F1 shows the keys"
_PARAGRAPH = "Some *words* of a paragraph that goes on for a while, with `code` in it, and then it ends.\n\n"
_CODE = "```python\ndef function(argument: int) -> int:\n    return argument + 1\n```\n\n"


def findings(rounds: int) -> Iterator[Finding]:
    """Yield first frame and longest stalls, in seconds."""
    frames = [_first_frame() for _ in range(rounds)]
    yield _finding("chat: first frame, s", frames, bar=0.6)
    stalls: dict[str, list[float]] = {}
    for _ in range(rounds):
        stalls.setdefault("", []).append(asyncio.run(_longest_stall(Conversation())))
        stalls.setdefault(f" after {_LONG_TOKENS:,} tokens", []).append(
            asyncio.run(_longest_stall(_long_conversation()))
        )
    for moment, seconds in stalls.items():
        yield _finding(
            f"chat: longest pause of the screen at {_TOKENS_PER_SECOND} tokens/s{moment}, s",
            seconds,
            bar=0.05,
        )
    pages = [asyncio.run(_longest_paging_stall()) for _ in range(rounds)]
    yield _finding(f"chat: longest pause while paging through {_LONG_TOKENS:,} tokens, s", pages, bar=0.05)


def _finding(name: str, seconds: list[float], *, bar: float) -> Finding:
    median = statistics.median(seconds)
    return Finding(name, Ratio(median, min(seconds), max(seconds)), bar, False, f"{median * 1e3:.0f} ms")


def _first_frame() -> float:
    """Return seconds from process start to the first text on a terminal."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with tempfile.TemporaryDirectory() as state:
        environment = os.environ | {"TERM": "xterm-256color", "XDG_STATE_HOME": state}
        started = time.perf_counter()
        command = [sys.executable, "-m", "mlxctl", "chat"]
        process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        try:
            return _wait_for_words(controller) - started
        finally:
            process.kill()
            process.wait()
            os.close(controller)
            os.close(terminal)


def _wait_for_words(controller: int) -> float:
    seen = b""
    deadline = time.perf_counter() + 30
    while _FIRST_WORDS not in seen:
        ready, _, _ = select.select([controller], [], [], max(deadline - time.perf_counter(), 0))
        assert ready, f"no first frame: {seen[-500:]!r}"
        seen += os.read(controller, 65536)
    return time.perf_counter()


class _SteadyBackend(ScriptedBackend):
    """Streams text with code at a constant rate."""

    async def start(self, request: GenerationRequest) -> "_SteadyAnswer":  # type: ignore[override]
        return _SteadyAnswer()


class _SteadyAnswer:
    async def __aiter__(self) -> AsyncIterator[list[StreamEvent]]:
        text = (_PARAGRAPH * 3 + _CODE) * 100
        num_tokens = _TOKENS_PER_SECOND * _SECONDS
        started = time.perf_counter()
        for index in range(num_tokens):
            await asyncio.sleep(max(started + index / _TOKENS_PER_SECOND - time.perf_counter(), 0))
            yield [TextDelta(text=text[index * _TOKEN_CHARACTERS : (index + 1) * _TOKEN_CHARACTERS])]
        yield [Finished(reason="stop", usage=Usage(num_prompt_tokens=10, num_completion_tokens=num_tokens))]

    def cancel(self) -> None:
        """Nothing runs."""


def _long_conversation() -> Conversation:
    block = _PARAGRAPH * 3 + _CODE
    answer = block * (_TURN_TOKENS * _TOKEN_CHARACTERS // len(block))
    turn = [
        ChatMessage(message=text_message("user", "And then?")),
        ChatMessage(message=text_message("assistant", answer)),
    ]
    return Conversation(turn * (_LONG_TOKENS // _TURN_TOKENS))


async def _longest_stall(conversation: Conversation) -> float:
    """Return the longest stall of the UI thread during an answer."""
    async with _running_chat(conversation) as pilot:
        await pilot.press("h", "i", "enter")
        await asyncio.sleep(1.0)
        return await _watch(asyncio.create_task(asyncio.sleep(_SECONDS - 2.0)))


async def _longest_paging_stall() -> float:
    """Return the longest stall while paging through a long conversation."""
    async with _running_chat(_long_conversation()) as pilot:
        paging = asyncio.create_task(pilot.press(*["pageup"] * _NUM_PAGES, *["pagedown"] * _NUM_PAGES))
        return await _watch(paging)


@asynccontextmanager
async def _running_chat(conversation: Conversation) -> "AsyncIterator[Pilot[None]]":
    setup = ChatSetup(
        backend=_SteadyBackend(), options=ChatOptions(), tools=ToolBox(), conversation=conversation
    )
    app = ChatApp(setup)
    async with app.run_test(size=(120, 40)) as pilot:
        while "ready" not in str(app.screen.query_one(StatusLine).content):
            await asyncio.sleep(0.05)
        yield pilot


async def _watch(during: "asyncio.Task[None]") -> float:
    longest = 0.0
    last = time.perf_counter()
    while not during.done():
        await asyncio.sleep(_HEARTBEAT_SECONDS)
        now = time.perf_counter()
        longest, last = max(longest, now - last - _HEARTBEAT_SECONDS), now
    return longest
