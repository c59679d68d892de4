"""A disabled disk cache."""

from pathlib import Path

import httpx

from .hosted import hosting

PROMPT = " ".join(f"word {number}" for number in range(200))


def test_disabled_disk_cache_writes_nothing(endless_model: Path, tmp_path: Path) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
    with hosting(endless_model, "--cache-disk-bytes", "0", XDG_CACHE_HOME=str(tmp_path)) as server:
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert list(tmp_path.rglob("*.segment")) == []
