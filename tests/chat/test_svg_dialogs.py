"""Dialogs and the monitor as images."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from mlxctl.chat.observation import Observation

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend
from .test_messages import three_turns
from .test_monitor import make_observation, make_view, monitored
from .test_svg_screens import image, screenshot, scripted

__all__ = ["image"]

_NUM_LOOKS = 60


@pytest.mark.parametrize(
    ("key", "words"),
    [("f1", "Quit"), ("f3", "not saved"), ("f4", "continues with it")],
    ids=("help", "chats", "models"),
)
def test_dialog_image(key: str, words: str, image: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("scripted is ready")
        await screen.press(key)
        await screen.wait_for(words)
        await screen.settle()
        assert screenshot(screen) == image

    drive(ScriptedBackend(), interact, size=(100, 30))


@pytest.mark.parametrize(
    ("keys", "words"),
    [(("f7", "up"), "Message 5 of 6"), (("/", "down"), "Enter runs")],
    ids=("message", "commands"),
)
def test_image_above_the_input(keys: tuple[str, ...], words: str, image: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("Gamma.")
        await screen.wait_for("scripted  ready")
        # The image is that of a screen whose last message is already in view.
        await screen.settle()
        await screen.press(*keys)
        await screen.wait_for(words)
        await screen.settle()
        assert screenshot(screen) == image

    drive(ScriptedBackend(), interact, size=(80, 24), conversation=three_turns())


def test_chat_at_80_columns(image: SnapshotAssertion) -> None:
    async def interact(screen: Screen) -> None:
        await screen.ask("How much is 6*7?")
        await screen.wait_for("context 105")
        await screen.settle()
        assert screenshot(screen) == image

    drive(scripted(), interact, size=(80, 24), uses_tools=True)


def busy_server() -> Callable[[], Awaitable[Observation]]:
    """Return an observe function with varying load that finally blocks."""
    looks = 0

    async def observe() -> Observation:
        nonlocal looks
        looks += 1
        if looks > _NUM_LOOKS:
            await asyncio.Event().wait()
        wave = [round(30 + 25 * math.sin(number / 8)) for number in range(looks + 1)]
        requests = [
            make_view(
                number,
                first_token_seconds=wave[-1] / 100,
                tokens_per_second=float(wave[-1]),
                caller=("", "ci", "laptop")[number % 3],
                protocol=("chat", "messages")[number % 2],
                finish_reason="stop",
                num_cached_tokens=10 * wave[number],
                vision_seconds=wave[number] / 1000 if number % 4 == 0 else None,
            )
            for number in range(looks, 0, -1)
        ]
        reading = make_view(
            looks + 1,
            state="reading",
            num_read_tokens=512,
            num_cached_tokens=256,
            first_token_seconds=None,
            tokens_per_second=None,
        )
        return make_observation(
            float(looks),
            reading,
            *requests,
            num_generated_tokens=sum(wave),
            num_prompt_tokens=9 * sum(wave),
            cache_tokens_reused=5 * sum(wave),
            num_decoding=wave[-1] // 10,
            num_prefilling=1,
            num_waiting=max(wave[-1] - 45, 0),
            cache_bytes=5.6e6 * looks,
            cache_max_bytes=400e6,
            cache_chunks=34,
            cache_hits={"exact": 12, "prefix": 40, "miss": 3},
            active_memory_bytes=5.4e9,
            peak_memory_bytes=6.1e9,
            admission={"usable_bytes": 12e9, "machine_memory_bytes": 16e9},
            pool={"models": [{"name": "a-model", "weights_bytes": 4.3e9, "is_pinned": True}]},
            kv_quant={"a-model": {"mode": "8", "layers": {"kv8": 28}, "attention": {"global": 28}}},
            prefix_cache_bits=None,
            cache_evicted=5,
            cache_evicted_bytes=61e6,
            num_disconnects=2,
            vision_seconds=1.25,
        )

    return observe


@pytest.mark.parametrize("size", [(80, 24), (120, 34)], ids=("narrow", "wide"))
def test_monitor_image(size: tuple[int, int], image: SnapshotAssertion) -> None:
    async def play() -> str:
        address = "http://127.0.0.1:8080"
        async with monitored(busy_server(), address=address, size=size, interval_seconds=0.01) as screen:
            await screen.wait_for(f" {_NUM_LOOKS + 1}  a-model")
            await screen.settle()
            return screenshot(screen)

    assert asyncio.run(play()) == image
