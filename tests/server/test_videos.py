"""Videos over HTTP: each protocol's parts, and clips that cannot be read."""

import io
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from PIL import Image

from tests import tiny_models

from .hosted import HostedServer, hosting

MODEL = "qwen2_5_vl_colors"
QUESTION = "What color is this?"


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    with hosting(None, "--model", str(tiny_models.trained(MODEL))) as running:
        yield running


def gif(color: tuple[int, int, int]) -> str:
    """Return an animation of two frames in base64."""
    frames = [Image.new("RGB", (64, 64), shade) for shade in (color, (color[0], color[1], color[2] + 1))]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=500)
    return b64encode(file.getvalue()).decode()


RED = gif((220, 30, 30))
URL = f"data:image/gif;base64,{RED}"
SOURCE = {"type": "base64", "media_type": "image/gif", "data": RED}


def post(server: HostedServer, path: str, part: dict[str, Any], **fields: Any) -> httpx.Response:
    name, kind = ("input", "input_text") if path == "responses" else ("messages", "text")
    content = [part, {"type": kind, "text": QUESTION}]
    limit = "max_output_tokens" if path == "responses" else "max_tokens"
    body = {"model": MODEL, name: [{"role": "user", "content": content}], "temperature": 0, limit: 16}
    return httpx.post(f"{server.url}/v1/{path}", json=body | fields, timeout=120)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("chat/completions", {"type": "video_url", "video_url": {"url": URL}}),
        ("responses", {"type": "input_video", "video_url": URL}),
        ("messages", {"type": "video", "source": SOURCE}),
    ],
)
def test_video_is_seen(server: HostedServer, path: str, part: dict[str, Any]) -> None:
    answer = post(server, path, part)
    assert answer.status_code == 200, answer.text
    assert "Red." in answer.text


def test_unreadable_clip_is_named_and_the_server_lives(server: HostedServer) -> None:
    text = b64encode(b"Once upon a time").decode()
    part = {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{text}"}}
    error = post(server, "chat/completions", part).json()["error"]
    assert error["param"] == "messages[0].content[0].video_url.url"
    assert "is not MP4" in error["message"]
    remote = {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}
    assert "--fetch-images" in post(server, "chat/completions", remote).json()["error"]["message"]
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
