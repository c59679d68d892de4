"""A long job of one model, beside which others are served."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .process import ServerProcess, wait_for


def open_requests(server: ServerProcess, model: str) -> list[int]:
    """Return the numbers of a model's open requests."""
    views = httpx.get(f"{server.url}/requests").json()["requests"]
    open_states = ("waiting", "reading", "answering")
    return [view["number"] for view in views if view["model"] == model and view["state"] in open_states]


def check_chat_continues_beside(
    server: ServerProcess, model: str, send: Callable[[], httpx.Response]
) -> None:
    """Chat with `endless` beside a longer job, which is cancelled then."""
    chat = {"model": "endless", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 6}
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(send)
        wait_for(lambda: open_requests(server, model), seconds=20)
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=chat)
        (number,) = open_requests(server, model)
        httpx.delete(f"{server.url}/requests/{number}").raise_for_status()
        assert answer.json()["usage"]["completion_tokens"] == 6
        assert job.result().status_code == 499


def check_disconnect_frees(
    server: ServerProcess, model: str, send: Callable[[float], httpx.Response]
) -> None:
    """Leave a long job after a second, then unload its model."""
    with pytest.raises(httpx.ReadTimeout):
        send(1)
    wait_for(lambda: not open_requests(server, model), seconds=30)
    assert httpx.post(f"{server.url}/models/unload", json={"model": model}).status_code == 200
