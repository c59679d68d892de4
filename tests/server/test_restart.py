"""A disabled disk cache."""

from pathlib import Path

import httpx

from tests.server.process import ServerProcess

PROMPT = " ".join(f"word {number}" for number in range(200))


def cached_tokens(model: Path, cache: Path, *arguments: str) -> int:
    """Start a server, send a request, stop it; return the cached tokens."""
    server = ServerProcess(
        "--model", str(model), "--name", "tiny", *arguments, environment={"XDG_CACHE_HOME": str(cache)}
    )
    try:
        server.wait_ready()
        body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
        assert server.stop() == 0
    finally:
        server.kill()
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_disabled_disk_cache_writes_nothing(endless_model: Path, tmp_path: Path) -> None:
    assert cached_tokens(endless_model, tmp_path, "--cache-disk-bytes", "0") == 0
    assert list(tmp_path.rglob("*.segment")) == []
