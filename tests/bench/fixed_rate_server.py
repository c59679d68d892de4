"""A server of known speed: it reads a word of the prompt in `word_seconds`, then says a token each
`pause_seconds`, as many as were asked for. Runs in a thread.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"tick"},"finish_reason":null}],"usage":null}\n\n'


class FixedRateServer:
    """`url` is where it answers, `bodies` what it was asked.

    After `num_answers` it hangs up in mid-answer.
    """

    def __init__(
        self,
        *,
        pause_seconds: float,
        word_seconds: float,
        tells_usage: bool,
        num_answers: int | None,
        refuses: str | None,
        lists_models: bool,
    ) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self._pause = pause_seconds
        self._word = word_seconds
        self._tells_usage = tells_usage
        self._left = num_answers
        self._refuses = refuses
        self._lists_models = lists_models

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, and close it however that ends."""
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self._answer(reader, writer)
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            body = b'{"data":[{"id":"metronome","max_model_len":4096}]}' if self._lists_models else b""
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await self._chat(json.loads(await reader.readexactly(length)), writer)

    async def _chat(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.bodies.append(body)
        if self._refuses is not None and self._refuses in body:
            refusal = json.dumps({"error": {"message": f"unknown field {self._refuses}"}}).encode()
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(refusal), refusal)
            )
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        if self._left is not None:
            self._left -= 1
        words = len(json.dumps(body["messages"]).split())
        await asyncio.sleep(words * self._word)
        for _ in range(body["max_tokens"]):
            if writer.transport.is_closing():
                return
            await asyncio.sleep(self._pause)
            writer.write(_CHUNK)
            if self._left is not None and self._left < 0:
                return
        if self._tells_usage:
            usage = {"completion_tokens": body["max_tokens"], "prompt_tokens": 2 * words}
            writer.write(b"data: %s\n\n" % json.dumps({"choices": [], "usage": usage}).encode())
        writer.write(b"data: [DONE]\n\n")


@contextmanager
def fixed_rate_server(
    *,
    pause_seconds: float = 0.002,
    word_seconds: float = 0.0,
    tells_usage: bool = True,
    num_answers: int | None = None,
    refuses: str | None = None,
    lists_models: bool = True,
) -> Iterator[FixedRateServer]:
    """A running one."""
    server = FixedRateServer(
        pause_seconds=pause_seconds,
        word_seconds=word_seconds,
        tells_usage=tells_usage,
        num_answers=num_answers,
        refuses=refuses,
        lists_models=lists_models,
    )
    loop = asyncio.new_event_loop()
    listener = loop.run_until_complete(asyncio.start_server(server.answer, "127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listener.close()
        loop.run_until_complete(_end(loop))
        loop.close()


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    answers = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for answer in answers:
        answer.cancel()
    await asyncio.gather(*answers, return_exceptions=True)
    # Closing a connection takes one more turn of the loop.
    await asyncio.sleep(0)
