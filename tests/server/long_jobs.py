"""A long job of one model, beside which others are served."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from .process import ServerProcess, wait_for


def open_requests(server: ServerProcess, model: str) -> list[int]:
    """Return the numbers of a model's open requests."""
    views = httpx.get(f"{server.url}/requests").json()["requests"]
    open_states = ("waiting", "reading", "answering")
    return [view["number"] for view in views if view["model"] == model and view["state"] in open_states]


@contextmanager
def running_job(server: ServerProcess, model: str, send: Callable[[], httpx.Response]) -> Iterator[None]:
    """Send a job that takes longer than the block, after which it is cancelled."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(send)
        wait_for(lambda: open_requests(server, model), seconds=20)
        yield
        (number,) = open_requests(server, model)
        httpx.delete(f"{server.url}/requests/{number}").raise_for_status()
        assert job.result().status_code == 499
