"""Shares of rows without API keys."""

from pathlib import Path

import httpx

from .hosted import hosting

_ASKED = {"model": "tiny", "messages": [{"role": "user", "content": "Say something."}]}


def test_connection_with_all_rows_gives_one_to_another_connection(endless_model: Path) -> None:
    with hosting(endless_model, MLXCTL_ENGINE_MAX_ROWS="2") as server:
        path, timeout = f"{server.url}/v1/chat/completions", 60
        choices = {**_ASKED, "n": 2, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", path, json=choices, timeout=timeout) as holder:
            chunks = holder.iter_lines()
            next(chunks)

            answer = httpx.post(path, json={**_ASKED, "max_tokens": 4}, timeout=timeout)

            assert answer.json()["usage"]["completion_tokens"] == 4
            assert "data: [DONE]" not in [next(chunks) for _ in range(20)]
        assert "mlxctl_fairness_yields_total 0.0" not in httpx.get(f"{server.url}/metrics").text.splitlines()
