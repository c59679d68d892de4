"""Preparation in worker processes: timeouts, crashes, cancellation and bounded queues."""

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.preparation.limits import SHORT, QueueLimits
from mlxctl.ir import GenerationRequest, ModelCapabilities, text_message
from mlxctl.ir.errors import BrokenModel, ContextTooLong, InvalidRequest, QueueFull, SequenceFailed
from mlxctl.library import read_model
from mlxctl.protocols.openai.chat import parse_chat
from tests import tiny_models
from tests.server.process import is_alive, wait_for

LONG = "Hi" * 10_000
ONE = QueueLimits(max_workers=1, cpu_seconds=0.5, clock_seconds=20.0, max_waiting=1, niceness=0)


@asynccontextmanager
async def running(short: QueueLimits = ONE) -> AsyncIterator[PreparationPool]:
    pool = PreparationPool(short=short)
    try:
        yield pool
    finally:
        await pool.close()


def body(*texts: str) -> PackedRequest:
    roles = ("user", "assistant")
    messages = tuple(text_message(roles[index % 2], text) for index, text in enumerate(texts))
    return PackedRequest.of(GenerationRequest(model="tiny", messages=messages))


async def prepared(pool: PreparationPool, request: PackedRequest) -> jobs.Preparation:
    found: jobs.Preparation = await pool.run(jobs.prepare, request, num_bytes=request.num_bytes, model="tiny")
    return found


def test_request_of_a_short_body_is_not_pickled_before_it_is_sent() -> None:
    async def run() -> list[PackedRequest]:
        async with running() as pool:
            chats = [{"model": "m", "messages": [{"role": "user", "content": text}]} for text in ("Hi", LONG)]
            return [(await pool.parse(json.dumps(chat).encode(), parse_chat))[0] for chat in chats]

    short, long = asyncio.run(run())
    assert (short.packed, long.packed is None) == (None, False)
    for packed in (short, long):
        sent: PackedRequest = pickle.loads(pickle.dumps(packed.with_head(max_tokens=3), protocol=5))
        assert (sent.unpack().messages[0].text[:2], sent.unpack().max_tokens) == ("Hi", 3)


def test_endless_preparation_is_killed_and_the_next_request_succeeds() -> None:
    async def run() -> None:
        async with running() as pool:
            with pytest.raises(InvalidRequest, match="preparing the request exceeded the limit"):
                # One call into C, in which nothing can be interrupted.
                await pool.run(sum, range(10**12), num_bytes=0)
            assert await pool.run(sum, range(10), num_bytes=0) == 45

    asyncio.run(run())


def test_crash_fails_only_its_own_request() -> None:
    async def run() -> None:
        async with running() as pool:
            with pytest.raises(SequenceFailed):
                await pool.run(os.abort, num_bytes=0)
            assert await pool.run(sum, range(10), num_bytes=0) == 45

    asyncio.run(run())


def test_cancel_stops_preparation_at_once(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"import time, pathlib; pathlib.Path({str(started)!r}).touch(); time.sleep(60)"

    async def run() -> None:
        async with running() as pool:
            first = await pool.run(os.getpid, num_bytes=0)
            left = asyncio.create_task(pool.run(exec, program, num_bytes=0))
            await asyncio.to_thread(wait_for, started.exists, seconds=20)
            left.cancel()
            second = await asyncio.wait_for(pool.run(os.getpid, num_bytes=0), 50)
            assert second != first
            # The system ends a killed process a moment later.
            await asyncio.to_thread(wait_for, lambda: not is_alive(first), seconds=20)

    asyncio.run(run())


def test_full_queue_is_rejected() -> None:
    async def run() -> None:
        async with running() as pool:
            waiting = [asyncio.create_task(pool.run(time.sleep, 0.2, num_bytes=0)) for _ in range(2)]
            # Each takes its place in its first step, and keeps it until its process has answered.
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await pool.run(os.getpid, num_bytes=0)
            await asyncio.gather(*waiting)

    asyncio.run(run())


def test_every_process_knows_the_ids_of_an_answer() -> None:
    facts = read_model(tiny_models.model("endless"))

    async def run() -> None:
        async with running(replace(SHORT, max_workers=1)) as pool:
            reader = await pool.load("tiny", facts, ModelCapabilities())
            first = await prepared(pool, body("a question"))
            # Two tokens for what the tokenizer writes as one.
            tokens = {reader.tokens.bytes_of(token_id): token_id for token_id in range(500)}
            word = next(token.decode() for token in tokens if len(token) == 2 and token.isalpha())
            ids = [tokens[letter.encode()] for letter in word]
            pool.record_answer("tiny", first.opened[0], [*ids, min(reader.stop_token_ids)])
            known = await prepared(pool, body("a question", word, "go on"))
            with pytest.raises(SequenceFailed):
                await pool.run(os.abort, num_bytes=0)
            again = await prepared(pool, body("a question", word, "go on"))

            place = len(first.inputs[0].token_ids)
            assert list(known.inputs[0].token_ids[place : place + 2]) == ids
            assert again.inputs[0].token_ids == known.inputs[0].token_ids

    asyncio.run(run())


def test_lost_fork_server_is_restarted() -> None:
    facts = read_model(tiny_models.model("endless"))

    async def run() -> None:
        async with running(SHORT) as pool:
            await pool.load("tiny", facts, ModelCapabilities())
            template = pool._workers._fork_server._worker
            assert template is not None
            template.kill()
            pool._workers._end_idle()
            assert (await prepared(pool, body("still here"))).inputs

    asyncio.run(run())


def test_errors_survive_the_process_boundary() -> None:
    facts = read_model(tiny_models.model("endless"))

    async def run() -> None:
        async with running(SHORT) as pool:
            await pool.load("tiny", facts, ModelCapabilities())
            with pytest.raises(ContextTooLong) as raised:
                await prepared(pool, body("a" * 1_000_000))
            assert raised.value.num_prompt_tokens > raised.value.context_length == facts.context_length
            with pytest.raises(BrokenModel):
                await pool.load("broken", replace(facts, chat_template="{% for %}"), ModelCapabilities())
            assert (await prepared(pool, body("still here"))).inputs

    asyncio.run(run())


def test_slow_functions_never_run_in_the_front() -> None:
    async def run() -> None:
        async with running() as pool:
            assert await pool.call(os.getpid, num_bytes=0) == os.getpid()
            assert await pool.call(os.getpid, num_bytes=0, is_slow=True) != os.getpid()

    asyncio.run(run())


def test_process_exits_quietly_when_its_parent_has_ended() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "mlxctl.inference.preparation.process", str(theirs.fileno())]
    with theirs:
        ours.close()
        ended = subprocess.run(
            command, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=60, check=False
        )

    assert (ended.returncode, ended.stderr) == (0, "")
