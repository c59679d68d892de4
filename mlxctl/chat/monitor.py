"""`mlxctl top`: on the full screen, or once as text or JSON."""

import asyncio
import shutil
import sys
from functools import partial
from typing import Literal

import msgspec

from mlxctl.chat.chat_backend import observe as observe_inference
from mlxctl.chat.observation import Observation, summary, warnings
from mlxctl.chat.preferences import Preferences, preferences_file
from mlxctl.chat.request_table import format_table
from mlxctl.chat.terminal import redirect_stderr, screen_problem
from mlxctl.inference.remote import RemoteInference
from mlxctl.inference.remote.errors import key_problem
from mlxctl.ir.errors import AuthenticationFailed
from mlxctl.state import locations
from mlxctl.terminal_text import echo

# Programs get every column.
_WIDTH_OF_A_PIPE = 10_000


def run_top(
    url: str, *, api_key: str | None, interval_seconds: float, output: Literal["screen", "text", "json"]
) -> None:
    """Monitor until the user quits, or print once.

    Raises ServerUnreachable, AuthenticationFailed, UnknownResource.
    """
    if output == "screen" and (reason := screen_problem(sys.stdout)):
        echo(f"mlxctl: {reason}, so this is --once", err=True)
        output = "text"
    if output == "screen":
        _run_screen(url, api_key, interval_seconds)
        return
    observation = asyncio.run(_observe_once(url, api_key))
    if output == "json":
        echo(format_json(observation))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
        echo(format_text(observation, width=width))


def format_json(observation: Observation) -> str:
    """Return one JSON document with `stats` and `requests`."""
    return msgspec.json.encode({"stats": observation.stats, "requests": observation.requests}).decode()


def format_text(observation: Observation, *, width: int) -> str:
    """Return counters and the request table, with columns that fit."""
    counts = ", ".join(
        f"{word} {observation.count(f'num_{word}'):.0f}" for word in ("waiting", "prefilling", "decoding")
    )
    table = format_table(observation.requests, width=width)
    return "\n".join([counts, *warnings(observation), *summary(observation), "", *table])


async def _observe_once(url: str, api_key: str | None) -> Observation:
    remote = RemoteInference(url, api_key=api_key)
    try:
        return await observe_inference(remote)
    except AuthenticationFailed:
        raise key_problem(remote.root, has_key=bool(api_key)) from None
    finally:
        await remote.close()


def _run_screen(url: str, api_key: str | None, interval_seconds: float) -> None:
    from mlxctl.chat.screens.monitor import MonitorApp

    remote = RemoteInference(url, api_key=api_key)
    # Fail before the screen is opened when the server cannot be reached.
    asyncio.run(_observe_once(url, api_key))
    with redirect_stderr(locations.state_directory() / "top.log"):
        observe = partial(observe_inference, remote)
        preferences = Preferences(preferences_file())
        MonitorApp(
            observe,
            remote.cancel,
            remote.cached_entries,
            address=remote.root,
            interval_seconds=interval_seconds,
            close=remote.close,
            preferences=preferences,
        ).run()
