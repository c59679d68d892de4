"""The monitor: trends, screen, text and JSON."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
from server.hosted import HostedServer, hosting
from snapshot_location import TextSnapshots
from syrupy.assertion import SnapshotAssertion

from mlxctl.chat.chat_backend import RemoteBackend
from mlxctl.chat.monitor import format_text, run_top
from mlxctl.chat.observation import Observation, Trends, summary, warnings
from mlxctl.chat.request_table import (
    COLUMNS,
    SortOrder,
    describe_request,
    find_column,
    fit_table,
    format_table,
)
from mlxctl.chat.screens.monitor import Cancel, ListEntries, MonitorApp, Observe
from mlxctl.chat.widgets.cache_table import CacheTable
from mlxctl.chat.widgets.plot import bars, stacked_bars
from mlxctl.inference.interface import CacheEntry
from mlxctl.inference.request_entry import RequestView
from mlxctl.ir.errors import AuthenticationFailed, ServerUnreachable

from .screen_driver import Screen, drive, mask_times_in


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    with hosting(None) as running:
        yield running


def make_view(number: int, **fields: object) -> RequestView:
    known = {
        "model": "a-model",
        "state": "finished",
        "num_prompt_tokens": 1000,
        "num_read_tokens": 1000,
        "num_cached_tokens": 750,
        "num_generated_tokens": 20,
        "started_at": 0.0,
        "age_seconds": 3.0,
        "first_token_seconds": 0.5,
        "tokens_per_second": 40.0,
    }
    return RequestView(number=number, **{**known, **fields})  # type: ignore[arg-type]


def make_observation(at: float, *requests: RequestView, **stats: object) -> Observation:
    return Observation(at=at, stats=stats, requests=requests)


async def cancel_nothing(request_id: str) -> list[int]:
    return []


async def no_entries(limit: int) -> list[CacheEntry]:
    return []


@asynccontextmanager
async def monitored(
    observe: Observe,
    *,
    cancel: Cancel = cancel_nothing,
    list_entries: ListEntries = no_entries,
    address: str = "http://nowhere",
    size: tuple[int, int] = (80, 24),
    interval_seconds: float = 0.05,
) -> AsyncIterator[Screen]:
    """Yield the screen of a running monitor."""

    async def close() -> None:
        """Nothing is open."""

    app = MonitorApp(
        observe,
        cancel,
        list_entries,
        address=address,
        interval_seconds=interval_seconds,
        close=close,
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Screen(app, pilot)


def test_rates_are_differences_between_observations() -> None:
    trends = Trends()
    trends.add(
        make_observation(10.0, num_generated_tokens=100, num_prompt_tokens=1000, cache_tokens_reused=0)
    )
    trends.add(
        make_observation(12.0, num_generated_tokens=300, num_prompt_tokens=1100, cache_tokens_reused=300)
    )
    assert (list(trends.generated), list(trends.read)) == ([100.0], [50.0])


def test_prompts_are_cached_and_computed_tokens_of_each_request() -> None:
    waiting = make_view(3, state="waiting", num_read_tokens=0, num_cached_tokens=0)
    image = make_view(2, num_read_tokens=300, num_cached_tokens=100, vision_seconds=0.25)
    seen = make_observation(1.0, waiting, image, make_view(1))
    assert seen.prompts == [(750, 250), (100, 200)]
    assert seen.vision_milliseconds == [250.0]


@pytest.mark.parametrize(("used", "words"), [(79, ""), (80, ""), (81, "Memory pressure"), (0, "")])
def test_memory_pressure_is_shown_above_80_percent(used: int, words: str) -> None:
    seen = make_observation(1.0, cache_bytes=used, cache_max_bytes=100)
    assert [warning.partition(" —")[0] for warning in warnings(seen)] == ([words] if words else [])


@pytest.mark.parametrize(("age", "words"), [(0.3, []), (2.0, []), (12.4, ["12 s old"])])
def test_figures_of_a_busy_engine_are_shown_with_their_age(age: float, words: list[str]) -> None:
    shown = warnings(make_observation(1.0, stats_age_seconds=age))
    assert [word for word in words if word in shown[0]] == words
    assert len(shown) == len(words)


def test_totals_have_hit_rate_average_match_and_kv_formats() -> None:
    stats = {
        "cache_hits": {"exact": 3, "miss": 1},
        "cache_tokens_reused": 300,
        "num_prompt_tokens": 100,
        "cache_chunks": 7,
        "cache_evicted": 1,
        "num_disconnects": 2,
        "vision_seconds": 1.5,
        "pool": {"models": [{"name": "a-model", "weights_bytes": 4e9, "is_pinned": False}]},
        "kv_quant": {"a-model": {"mode": "8", "layers": {"kv8": 24, "full": 4}, "attention": {}}},
        "prefix_cache_bits": 4,
    }
    text = "\n".join(summary(make_observation(1.0, **stats)))
    for words in (
        "7 entries, hit rate 75%, average match 75%",
        "300 from cache, 100 prefilled",
        "disconnects 2",
        "; 1 entry evicted",
    ):
        assert words in text
    for words in ("images 1.5 s", "KV 8-bit in 24 of 28 layers", "prefix cache 4-bit"):
        assert words in text


def test_restarted_engine_has_rate_zero() -> None:
    trends = Trends()
    trends.add(make_observation(1.0, num_generated_tokens=500))
    trends.add(make_observation(2.0, num_generated_tokens=20))
    assert list(trends.generated) == [0.0]


def test_first_token_trend_covers_new_requests_only() -> None:
    trends = Trends()
    trends.add(make_observation(1.0, make_view(1, first_token_seconds=0.1)))
    trends.add(
        make_observation(2.0, make_view(2, first_token_seconds=0.3), make_view(1, first_token_seconds=0.1))
    )
    trends.add(make_observation(3.0, make_view(2, first_token_seconds=0.3)))
    assert list(trends.first_token) == [100.0, 300.0, 300.0]


def test_bars_start_at_zero_and_show_small_values() -> None:
    assert bars([0.0, 0.001, 50.0, 100.0]) == "   █\n ▁██"
    assert bars([7.0, 7.0]) == "██\n██"
    assert bars([0.0, 0.0]) == "  \n  "


def test_stacked_bars_show_both_parts_in_their_colors() -> None:
    drawn = stacked_bars([(0, 0), (100, 0), (0, 50), (50, 50), (99, 1)], lower="red", upper="blue")
    assert drawn.plain == " █ █▇\n ████"
    styles = [
        next((str(span.style) for span in drawn.spans if span.start <= at < span.end), "") for at in range(11)
    ]
    assert styles == ["blue", "red", "blue", "blue", "red on blue", "", "blue", "red", "blue", "red", "red"]


def test_monitor_as_text(snapshot: SnapshotAssertion) -> None:
    reading = make_view(
        3,
        state="reading",
        num_read_tokens=512,
        num_generated_tokens=0,
        first_token_seconds=None,
        tokens_per_second=None,
    )
    stats = {
        "num_waiting": 2,
        "num_prefilling": 1,
        "num_decoding": 4,
        "cache_bytes": 120_000_000,
        "cache_max_bytes": 400_000_000,
        "cache_hits": {"miss": 3, "exact": 12, "common_prefix": 0},
        "cache_tokens_reused": 34_567,
        "cache_evicted": 5,
        "active_memory_bytes": 5_400_000_000,
        "peak_memory_bytes": 6_100_000_000,
    }
    shown = format_text(make_observation(1.0, reading, make_view(1), **stats), width=200)
    assert shown == snapshot.use_extension(TextSnapshots)


@pytest.mark.parametrize(
    ("width", "dropped"),
    [
        (160, set()),
        (110, {"agent"}),
        (100, {"agent", "protocol"}),
        (78, {"agent", "protocol", "client"}),
        (57, {"agent", "protocol", "client", "first", "cached"}),
        (50, {"agent", "protocol", "client", "first", "cached", "tok/s"}),
    ],
)
def test_table_leaves_out_columns_that_do_not_fit(width: int, dropped: set[str]) -> None:
    view = make_view(12, caller="key_0123456789abcdef", protocol="chat_completions", agent="session-1")
    fitted = fit_table([view], width=width)
    names = {column.name for column in fitted.columns}
    assert {column.name for column in COLUMNS} - names == dropped
    sizes = [
        max(len(column.name) + 1, len(cell))
        for column, cell in zip(fitted.columns, fitted.rows[0], strict=True)
    ]
    assert sum(sizes) + 2 * len(sizes) <= width


def test_table_shortens_long_model_names_last() -> None:
    fitted = fit_table([make_view(1, model="mlx-community/Qwen3-30B-A3B-4bit")], width=90)
    assert fitted.rows[0][1].startswith("mlx-commun")
    assert fitted.rows[0][1].endswith("…")


def test_sort_order_puts_unknown_values_last() -> None:
    views = [
        make_view(1, tokens_per_second=None, model="b"),
        make_view(2, tokens_per_second=5.0, model="c"),
        make_view(3, tokens_per_second=9.0, model="a"),
    ]
    speed, model = find_column("tok/s"), find_column("model")
    numbers = [
        [view.number for view in order.sort(views)]
        for order in (
            SortOrder(),
            SortOrder(column=speed),
            SortOrder(column=speed, is_reversed=True),
            SortOrder(column=model),
        )
    ]
    assert numbers == [[1, 2, 3], [3, 2, 1], [2, 3, 1], [3, 1, 2]]


def test_selected_request_is_described_with_client_and_times() -> None:
    view = make_view(
        7,
        caller="ci",
        protocol="messages",
        agent="s1",
        hit="prefix",
        queue_seconds=0.25,
        request_id="r-7",
    )
    first, tokens, times = describe_request(view)
    assert "client ci  protocol messages  agent s1  id r-7" in first
    assert "750 cached (prefix)" in tokens
    assert times.startswith("queued 0.25 s")


def test_selection_follows_its_request_through_sorting_and_cancelling() -> None:
    cancelled: list[str] = []

    async def observe() -> Observation:
        views = [make_view(number, state="answering", age_seconds=float(number)) for number in (3, 2, 1)]
        return make_observation(1.0, *views)

    async def cancel(request_id: str) -> list[int]:
        cancelled.append(request_id)
        return [int(request_id)]

    async def play() -> None:
        async with monitored(observe, cancel=cancel) as screen:
            await screen.wait_for("request 3 ")
            await screen.press("down", "down")
            await screen.wait_for("request 1 ")
            await screen.press("s", "r")
            await screen.wait_for("#▲")
            assert "request 1 " in screen.text()
            await screen.press("x")
            await screen.wait_for("Cancel request 1?")
            await screen.press("enter")
            await screen.wait_for("Request 1 is cancelled")

    asyncio.run(play())
    assert cancelled == ["1"]


def test_cache_entries_keep_the_cursor_and_need_no_plots() -> None:
    async def observe() -> Observation:
        return make_observation(1.0, make_view(1), cache_chunks=2)

    first = "look one"

    async def list_entries(limit: int) -> list[CacheEntry]:
        texts = (f"{first}\x1b\nstory", "second")
        return [
            CacheEntry(num_tokens=16, memory_bytes=1000, disk_bytes=0, num_hits=1, text=text)
            for text in texts
        ]

    async def refuse(limit: int) -> list[CacheEntry]:
        raise AuthenticationFailed("the key lacks the scope cache:read")

    async def play(entries: ListEntries) -> str:
        nonlocal first
        async with monitored(observe, list_entries=entries) as screen:
            await screen.wait_for("request 1")
            await screen.press("c")
            if entries is refuse:
                return await screen.wait_for("lacks the scope")
            await screen.wait_for("second")
            table = screen.app.screen.query_one(CacheTable)
            await screen.press("down")
            first = "look two"
            await screen.wait_for("look two")
            assert table.cursor_row == 1
            return screen.text()

    shown = asyncio.run(play(list_entries))
    assert re.search(r"16 +1\.0 kB +1 +look.*story", shown)
    assert "request 1" not in shown
    assert "2 entries" in asyncio.run(play(refuse))


def test_small_screen_shows_whole_figures_and_several_requests() -> None:
    async def observe() -> Observation:
        views = [make_view(number, state="disconnected") for number in range(1012, 1000, -1)]
        return make_observation(1.0, *views, num_decoding=12, num_waiting=34)

    async def play() -> str:
        async with monitored(observe, size=(60, 20)) as screen:
            await screen.wait_for("run 12 wait 34")
            return await screen.wait_for("first token  500")

    shown = asyncio.run(play())
    rows = re.findall(r"^ .*10\d\d .* disconnected .* s", shown, re.MULTILINE)
    assert len(rows) >= 3


def test_monitor_shows_requests_of_a_real_server(server: HostedServer) -> None:
    body = {"model": "mlxctl-demo", "messages": [{"role": "user", "content": "Hello!"}], "temperature": 0}
    assert httpx.post(f"{server.url}/v1/chat/completions", json=body).status_code == 200

    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.press("f5")
        await screen.wait_for("first token, ms")
        seen = await screen.wait_for("finished")
        assert re.search(r"mlxctl-demo +finished +\d+ +0%", seen)
        assert re.search(r"miss \d", seen)
        await screen.press("c")
        entries = await screen.wait_for(" hits ")
        assert re.search(r"tokens +memory +disk +hits +images +age +text", entries)
        assert re.search(r"\d+ +\d+\.\d [kM]B .* +\d+ s +\S", entries)
        await screen.press("c")
        await screen.wait_for("finished")
        await screen.press("ctrl+c")
        await screen.wait_for("Ask something")

    drive(RemoteBackend(server.url), interact, size=(120, 30))


def test_monitor_as_json(server: HostedServer) -> None:
    command = [sys.executable, "-m", "mlxctl", "top", "--url", server.url, "--json"]
    looked = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    )
    assert looked["stats"]["num_decoding"] == 0
    assert {request["state"] for request in looked["requests"]} <= {"finished"}


def test_text_table_has_the_columns_that_fit() -> None:
    view = make_view(1, caller="127.0.0.1", agent="auto-6f3a3079ba", protocol="openai")
    narrow, whole = format_table([view], width=80), format_table([view], width=200)
    assert max(map(len, narrow)) <= 80
    assert whole[0].split() == [column.name for column in COLUMNS]


def test_unreachable_server_is_reported_in_one_line() -> None:
    command = [sys.executable, "-m", "mlxctl", "top", "--once", "--url", "http://127.0.0.1:9"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert re.fullmatch(r"mlxctl: .*127\.0\.0\.1:9.*\n", ended.stderr)


def test_missing_or_wrong_key_names_the_option() -> None:
    with hosting(None, "--api-key", "right") as server:
        for key, problem in (
            (None, "needs an API key; give one"),
            ("k", "rejects this API key; give another"),
        ):
            with pytest.raises(AuthenticationFailed, match=f"{problem} with --api-key"):
                run_top(server.url, api_key=key, interval_seconds=1.0, output="text")


def test_lost_server_keeps_the_last_values_and_shows_the_error(snapshot: SnapshotAssertion) -> None:
    looks = 0

    async def observe() -> Observation:
        nonlocal looks
        looks += 1
        if looks > 2:
            raise ServerUnreachable("http://nowhere", "the connection is refused")
        return make_observation(float(looks), make_view(1), num_generated_tokens=100 * looks, num_decoding=1)

    async def play() -> str:
        async with monitored(observe) as screen:
            await screen.wait_for("refused")
            await screen.press("space")
            return await screen.wait_for("paused")

    assert mask_times_in(asyncio.run(play())) == snapshot.use_extension(TextSnapshots)
