"""An agent of a server, for clients without an SDK."""

from typing import Any

import httpx

from .hosted import HostedServer
from .process import ServerProcess

BRIEF: dict[str, Any] = {"max_tokens": 8, "temperature": 0}
LONG: dict[str, Any] = {"max_tokens": 20_000, "temperature": 0}


class Agent:
    """One agent of a server, for a client without an SDK."""

    def __init__(self, server: ServerProcess | HostedServer, **settings: Any) -> None:
        self.url = f"{server.url}/v1/agents"
        made = httpx.post(self.url, json={"model": "tiny", **settings}, timeout=30)
        assert made.status_code == 201, made.text
        self.url += f"/{made.json()['id']}"

    def turn(self, text: str, **more: Any) -> httpx.Response:
        body = {**BRIEF, "messages": [{"role": "user", "content": text}], **more}
        return httpx.post(f"{self.url}/generate", json=body, timeout=60)

    def answer_to(self, text: str, **more: Any) -> str:
        answer = self.turn(text, **more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["message"]["content"])

    def look(self) -> dict[str, Any]:
        return dict(httpx.get(self.url, timeout=30).json())

    def history(self) -> list[dict[str, Any]]:
        return [
            entry["message"]
            for entry in httpx.get(f"{self.url}/messages?limit=100", timeout=30).json()["data"]
        ]

    def stream(self, text: str, **more: Any) -> Any:
        body = {**LONG, "messages": [{"role": "user", "content": text}], "stream": True, **more}
        return httpx.stream("POST", f"{self.url}/generate", json=body, timeout=60)
