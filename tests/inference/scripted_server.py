"""An OpenAI-compatible server with scripted responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MODELS = b'{"data":[{"id":"other","object":"model"}]}'


class ScriptedServer:
    """Answers at `url`; `bodies` are the received requests."""

    def __init__(
        self,
        chat: bytes,
        *,
        status: bytes = b"200 OK",
        models: bytes = MODELS,
        models_status: bytes = b"200 OK",
        headers: bytes = b"",
    ) -> None:
        self.bodies: list[bytes] = []
        self.url = ""
        self.writers: list[asyncio.StreamWriter] = []
        self._chat = b"HTTP/1.1 " + status + b"\r\n" + headers + b"Connection: close\r\n\r\n" + chat
        self._models = b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (models_status, len(models)) + models

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection with the script."""
        self.writers.append(writer)
        while head := await self._head(reader):
            if head.startswith(b"GET"):
                writer.write(self._models)
                continue
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            )
            self.bodies.append(await reader.readexactly(length))
            writer.write(self._chat)
            break
        writer.close()
        await writer.wait_closed()

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""


@asynccontextmanager
async def listening(server: ScriptedServer) -> AsyncIterator[ScriptedServer]:
    """Run the server on a free port."""
    listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for writer in server.writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in server.writers), return_exceptions=True)


def stream(*chunks: str, done: bool = True) -> bytes:
    """Return chunks as server-sent events."""
    return "".join(f"data: {chunk}\n\n" for chunk in (*chunks, *(["[DONE]"] if done else []))).encode()
