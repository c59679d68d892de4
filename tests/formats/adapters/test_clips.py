"""Clips of requests: their frames, and clips that cannot be read."""

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from mlxctl.formats.adapters.media import clips, frame_reader
from mlxctl.formats.adapters.media.clips import ClipReader
from mlxctl.ir import Clip, Message, VideoPart
from mlxctl.ir.errors import InvalidRequest

PARAM = "messages[0].content[1]"
COLORS = ((250, 0, 0), (0, 250, 0), (0, 0, 250))


def gif(num_frames: int = 3, *, milliseconds: int = 500) -> bytes:
    """An animation in red, green and blue, in this order."""
    frames = [Image.new("RGB", (64, 48), COLORS[at * 3 // num_frames]) for at in range(num_frames)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds)
    return file.getvalue()


@pytest.fixture(scope="module", params=["mp4v", "VP90"])
def video(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds with 30 frames in red, green and blue."""
    path = tmp_path_factory.mktemp("clips") / ("a.mp4" if request.param == "mp4v" else "a.webm")
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*request.param), 10, (64, 48))
    for at in range(30):
        writer.write(np.full((48, 64, 3), COLORS[at // 10][::-1], np.uint8))
    writer.release()
    return path


def read(*files: bytes, most: int = 64, **options: Any) -> Clip:
    part = VideoPart(files=files, param=PARAM, **options)
    (message,) = ClipReader(most=most, usual=most).read([Message(role="user", parts=(part,))])
    (found,) = message.parts
    assert isinstance(found, VideoPart)
    assert found.clip is not None
    return found.clip


def refusal(*files: bytes, **options: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(*files, **options)
    assert refused.value.param == PARAM
    assert PARAM in str(refused.value)
    return str(refused.value)


def in_order(pictures: Any) -> list[int]:
    """Return which of the three colors the middle of each picture has."""
    return [int(np.argmax(picture.getpixel((32, 24)))) for picture in pictures]


def test_frames_of_a_video_are_evenly_spaced(video: Path) -> None:
    frames, pictures = frame_reader.read(str(video), "video/mp4", 2.0, 64, 10**6)
    assert in_order(pictures) == [0, 0, 1, 1, 2, 2]
    assert frames.seconds == [0.0, 0.6, 1.2, 1.7, 2.3, 2.9]
    assert frames.duration == 3.0


def test_frames_and_their_pixels_have_limits(video: Path) -> None:
    _, pictures = frame_reader.read(str(video), "video/mp4", 10.0, 4, 4 * 32 * 24)
    assert [picture.size for picture in pictures] == [(32, 24)] * 4


def test_truncated_video_is_refused(video: Path, tmp_path: Path) -> None:
    data = video.read_bytes()
    (tmp_path / video.name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(frame_reader.UnreadableError, match="damaged"):
        frame_reader.read(str(tmp_path / video.name), "video/mp4", 2.0, 64, 10**6)


def test_animation_is_read_by_its_times() -> None:
    clip = read(gif(), fps=1)
    assert in_order(clip.pictures) == [0, 1, 2]
    assert clip.seconds == (0.0, 0.5, 1.0)
    assert clip.duration == 1.5


def test_frames_of_a_client_are_read_in_order() -> None:
    clip = read(*map(one_color, COLORS), has_frames=True, fps=2)
    assert in_order(clip.pictures) == [0, 1, 2]
    assert clip.seconds == (0.0, 0.5, 1.0)


def one_color(color: tuple[int, int, int], side: int = 64) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side), color).save(file, "PNG")
    return file.getvalue()


def test_unreadable_clip_is_named() -> None:
    assert "is not MP4" in refusal(b"Once upon a time in a text file")
    assert "is not MP4" in refusal(b"#EXTM3U\nhttp://127.0.0.1/secret\n")
    assert "damaged" in refusal(gif()[:20])
    huge = bytearray(gif())
    huge[6:10] = b"\xff" * 4
    assert "too large" in refusal(bytes(huge))


def test_frames_that_fit_no_clip_are_refused() -> None:
    red = one_color(COLORS[0])
    assert "has no frames" in refusal(has_frames=True)
    assert "has 10000 frames; it may have 64" in refusal(*[red] * 10_000, has_frames=True)
    assert "frame 2 is unlike" in refusal(red, one_color(COLORS[0], side=32), has_frames=True)
    assert "vision.max_video_frames" in refusal(gif(), max_frames=65)


@pytest.mark.parametrize(
    ("program", "reason"),
    [("import os; os.abort()", "ended its decoder"), ("import time; time.sleep(60)", "takes longer than")],
)
def test_decoder_that_dies_or_hangs_fails_its_clip(
    program: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "decoder.py").write_text(program)
    monkeypatch.setattr(frame_reader, "__file__", str(tmp_path / "decoder.py"))
    monkeypatch.setattr(clips, "_MAX_SECONDS", 0.5)
    assert reason in refusal(gif())
