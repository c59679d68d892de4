"""Clips in the bodies of each protocol."""

import base64
import json
from typing import Any

import pytest

from mlxctl.ir import Part, RemoteImagePart, VideoPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS

DATA = base64.b64encode(b"clip").decode()
MP4 = f"data:video/mp4;base64,{DATA}"
FRAME = f"data:image/jpeg;base64,{DATA}"
CLIP = VideoPart(files=(b"clip",))
TWO_FRAMES = VideoPart(files=(b"clip", b"clip"), has_frames=True)
URL = "https://example.org/a.mp4"
BODIES = {
    "chat": ("messages", {}),
    "responses": ("input", {}),
    "messages": ("messages", {"max_tokens": 5}),
}


def part_of(protocol: str, part: dict[str, Any], **fields: Any) -> Part:
    """Return what the protocol reads in a user's message."""
    name, more = BODIES[protocol]
    body = {"model": "m", name: [{"role": "user", "content": [part]}], **more, **fields}
    request = PROTOCOLS[protocol].parse_alone(json.dumps(body).encode())
    ((found,),) = (message.parts for message in request.messages)
    return found


@pytest.mark.parametrize("protocol", ["chat", "responses"])
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "video_url", "video_url": {"url": MP4}}, CLIP),
        ({"type": "video_url", "video_url": MP4, "fps": 1, "max_frames": 8}, (1.0, 8)),
        ({"type": "input_video", "video_url": {"url": MP4}}, CLIP),
        ({"type": "input_video", "video": MP4}, CLIP),
        ({"type": "video", "video": [FRAME, FRAME]}, TWO_FRAMES),
        ({"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{DATA},{DATA}"}}, TWO_FRAMES),
        ({"type": "video_url", "video_url": {"url": URL}}, RemoteImagePart(url=URL, video=VideoPart())),
    ],
)
def test_clips_of_openai_dialects(protocol: str, part: dict[str, Any], expected: Any) -> None:
    found = part_of(protocol, part)
    if isinstance(expected, tuple):
        assert isinstance(found, VideoPart)
        assert (found.fps, found.max_frames) == expected
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"source": {"type": "base64", "media_type": "video/mp4", "data": DATA}}, CLIP),
        ({"source": {"type": "url", "url": URL}}, RemoteImagePart(url=URL, video=VideoPart())),
        ({"video": [FRAME, FRAME]}, TWO_FRAMES),
    ],
)
def test_video_blocks_of_messages(block: dict[str, Any], expected: Part) -> None:
    assert part_of("messages", {"type": "video", **block}) == expected


def test_options_of_a_request_hold_for_clips_that_set_none() -> None:
    part = {"type": "video_url", "video_url": MP4, "fps": 1}
    found = part_of("chat", part, mm_processor_kwargs={"fps": 3, "max_frames": 10})
    assert isinstance(found, VideoPart)
    assert (found.fps, found.max_frames) == (1, 10)


def test_number_of_frames_is_chosen_of_files_only() -> None:
    options = {"mm_processor_kwargs": {"num_frames": 6}}
    file = part_of("chat", {"type": "video_url", "video_url": MP4}, **options)
    frames = part_of("chat", {"type": "video", "video": [FRAME, FRAME]}, **options)
    assert isinstance(file, VideoPart)
    assert isinstance(frames, VideoPart)
    assert (file.fps, file.max_frames) == (60, 6)
    assert (frames.fps, frames.max_frames) == (None, None)


@pytest.mark.parametrize(
    ("part", "more", "param"),
    [
        ({"video_url": MP4, "fps": 0}, {}, "messages[0].content[0].fps"),
        ({"video_url": MP4, "max_frames": 0}, {}, "messages[0].content[0].max_frames"),
        ({"video_url": "file:///etc/passwd"}, {}, "messages[0].content[0].video_url"),
        ({"video_url": "data:text/plain;base64,QUFB"}, {}, "messages[0].content[0].video_url"),
        ({"video_url": MP4}, {"mm_processor_kwargs": {"min_pixels": 9}}, "mm_processor_kwargs.min_pixels"),
    ],
)
def test_bad_values_are_refused_by_name(part: dict[str, Any], more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        part_of("chat", {"type": "video_url", **part}, **more)
    assert refused.value.param == param
