"""Monitor a server: on a screen, or once as text or as JSON."""

import asyncio
import sys
from functools import partial
from typing import Literal

import msgspec

from mlxctl import locations
from mlxctl.inference.remote import RemoteInference
from mlxctl.tui.chat_backend import observe_remote
from mlxctl.tui.observation import Observation
from mlxctl.tui.preferences import Preferences, preferences_file
from mlxctl.tui.request_table import COLUMNS, WORD_COLUMNS, cache_words, memory_words, row
from mlxctl.tui.terminal import missing_screen, own_terminal


def run_top(
    url: str, *, api_key: str | None, interval_seconds: float, look: Literal["screen", "text", "json"]
) -> None:
    """Monitor until the person quits, or print once.

    Raises ServerUnreachable, AuthenticationFailed, UnknownResource.
    """
    if look == "screen" and (reason := missing_screen(sys.stdout)):
        print(f"mlxctl: {reason}, so this is --once", file=sys.stderr)
        look = "text"
    if look == "screen":
        _run_screen(url, api_key, interval_seconds)
        return
    observation = asyncio.run(_look_once(url, api_key))
    print(as_json(observation) if look == "json" else as_text(observation))


def as_json(observation: Observation) -> str:
    """Return one JSON document: `stats` and `requests`, as the server gave them."""
    return msgspec.json.encode({"stats": observation.stats, "requests": observation.requests}).decode()


def as_text(observation: Observation) -> str:
    """Return lines for people."""
    table = [COLUMNS, *(row(view) for view in observation.requests)]
    widths = [max(len(cells[index]) for cells in table) for index in range(len(COLUMNS))]
    aligns = [str.ljust if column in WORD_COLUMNS else str.rjust for column in COLUMNS]
    lines = [
        "  ".join(align(cell, width) for align, cell, width in zip(aligns, cells, widths, strict=True))
        for cells in table
    ]
    counts = ", ".join(
        f"{word} {observation.count(f'num_{word}'):.0f}" for word in ("waiting", "prefilling", "decoding")
    )
    return "\n".join([counts, cache_words(observation), memory_words(observation), "", *lines])


async def _look_once(url: str, api_key: str | None) -> Observation:
    remote = RemoteInference(url, api_key=api_key)
    try:
        return await observe_remote(remote)
    finally:
        await remote.close()


def _run_screen(url: str, api_key: str | None, interval_seconds: float) -> None:
    from mlxctl.tui.monitor_app import MonitorApp

    remote = RemoteInference(url, api_key=api_key)
    # A server that cannot be reached at all is said before the screen is taken.
    asyncio.run(_look_once(url, api_key))
    with own_terminal(locations.state_directory() / "top.log"):
        observe = partial(observe_remote, remote)
        preferences = Preferences(preferences_file())
        MonitorApp(
            observe,
            where=remote.root,
            interval_seconds=interval_seconds,
            close=remote.close,
            preferences=preferences,
        ).run()
