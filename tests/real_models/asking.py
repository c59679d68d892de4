"""Chat requests to a server, several at once."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

_SECONDS = 1800.0
_AT_ONCE = 8


def ask_all(url: str, model: str, bodies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the greedy answers in the order of the requests.

    Raises RuntimeError with the text of an answer that is an error.
    """

    def ask(body: dict[str, Any]) -> dict[str, Any]:
        response = client.post("/v1/chat/completions", json={"model": model, "temperature": 0, **body})
        if response.is_error:
            raise RuntimeError(f"{response.status_code}: {response.text}")
        answer: dict[str, Any] = response.json()
        return answer

    with httpx.Client(base_url=url, timeout=_SECONDS) as client, ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, bodies))


def question(text: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a request with one question."""
    return {"messages": [{"role": "user", "content": text}], **fields}


def calling(text: str, tools: Sequence[dict[str, Any]], choice: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a question with tools.

    `choice` is a mode or the name of a tool.
    """
    mode = choice if choice in ("auto", "required") else {"type": "function", "function": {"name": choice}}
    return question(text, tools=list(tools), tool_choice=mode, **fields)
