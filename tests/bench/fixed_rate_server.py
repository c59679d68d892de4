"""A chat and speech server of known speed, in a thread.

It takes `word_seconds` per prompt word and sends a token every `pause_seconds` until max_tokens.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mlxctl.formats.adapters.media.speech_files import wav_header

_CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"tick"},"finish_reason":null}],"usage":null}\n\n'


class FixedRateServer:
    """`url` is its address, `bodies` are the received requests.

    After `num_answers` it closes the connection during an answer.
    """

    def __init__(
        self,
        *,
        pause_seconds: float,
        word_seconds: float,
        sends_usage: bool,
        num_answers: int | None,
        rejected_field: str | None,
        lists_models: bool,
    ) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Future[None]] = set()
        self._pause = pause_seconds
        self._word = word_seconds
        self._sends_usage = sends_usage
        self._num_left = num_answers
        self._rejected_field = rejected_field
        self._lists_models = lists_models

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to answer a connection.

        A task that is cancelled before its first step would not close it.
        """
        self.writers.append(writer)
        self._tasks.add(asyncio.ensure_future(self.answer(reader, writer)))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection and close it in every case."""
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self._answer(reader, writer)
                await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            body = b'{"data":[{"id":"fixed-rate","max_model_len":4096}]}' if self._lists_models else b""
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        body = json.loads(await reader.readexactly(length))
        await (self._speak if b"/audio/speech" in head else self._chat)(body, writer)

    async def _speak(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Send a second of silence in two parts."""
        self.bodies.append(body)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nConnection: close\r\n\r\n" + wav_header(8000)
        )
        for _ in range(2):
            await asyncio.sleep(self._pause)
            writer.write(bytes(8000))
            await writer.drain()

    async def _chat(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.bodies.append(body)
        if self._rejected_field is not None and self._rejected_field in body:
            refusal = json.dumps({"error": {"message": f"unknown field {self._rejected_field}"}}).encode()
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(refusal), refusal)
            )
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        if self._num_left is not None:
            self._num_left -= 1
        words = len(json.dumps(body["messages"]).split())
        await asyncio.sleep(words * self._word)
        for _ in range(body["max_tokens"]):
            if writer.transport.is_closing():
                return
            await asyncio.sleep(self._pause)
            writer.write(_CHUNK)
            if self._num_left is not None and self._num_left < 0:
                return
        if self._sends_usage:
            usage = {"completion_tokens": body["max_tokens"], "prompt_tokens": 2 * words}
            writer.write(b"data: %s\n\n" % json.dumps({"choices": [], "usage": usage}).encode())
        writer.write(b"data: [DONE]\n\n")


@contextmanager
def fixed_rate_server(
    *,
    pause_seconds: float = 0.002,
    word_seconds: float = 0.0,
    sends_usage: bool = True,
    num_answers: int | None = None,
    rejected_field: str | None = None,
    lists_models: bool = True,
) -> Iterator[FixedRateServer]:
    """Run a server in a thread."""
    server = FixedRateServer(
        pause_seconds=pause_seconds,
        word_seconds=word_seconds,
        sends_usage=sends_usage,
        num_answers=num_answers,
        rejected_field=rejected_field,
        lists_models=lists_models,
    )
    loop = asyncio.new_event_loop()
    listener = loop.run_until_complete(asyncio.start_server(server.accept, "127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(listener.close)
        # In their own thread: Python 3.14 lists tasks by thread.
        asyncio.run_coroutine_threadsafe(_end(server, loop), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: FixedRateServer, loop: asyncio.AbstractEventLoop) -> None:
    # Connections that were accepted last have their tasks only after the others were cancelled.
    while answers := asyncio.all_tasks(loop) - {asyncio.current_task()}:
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        for writer in server.writers:
            writer.close()
        # Closing a connection takes some more loop iterations.
        await asyncio.sleep(0.01)
