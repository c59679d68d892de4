"""Clips of requests, decoded to frames.

Slow: for workers. Another process decodes a file, so that a decoder that hangs or dies fails only its clip.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlxctl.formats.adapters.media import frame_reader
from mlxctl.formats.adapters.media.image_files import decode_image, open_images
from mlxctl.ir import Clip, ImagePart, Message, Part, VideoPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.images import video_media_type

DEFAULT_FPS = 2.0
"""Frames of a second that are read of a clip, as Qwen's processors do."""

MAX_FPS = 60.0

# Of a request. The frames of one at 1080p have 2 million pixels each.
_MAX_CLIPS = 16
_MAX_PIXELS = 100_000_000
_MAX_SECONDS = 20.0


class ClipReader:
    """Reads the clips of one request.

    `most` is the operator's limit of frames of a clip, `usual` the number for requests that set none.
    """

    def __init__(self, *, most: int, usual: int) -> None:
        self._most = most
        self._usual = min(usual, most)
        self._until = time.monotonic() + _MAX_SECONDS

    def read(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with the frames of their clips. Raises InvalidRequest."""
        clips = [part for message in messages for part in message.parts if isinstance(part, VideoPart)]
        if not clips:
            return tuple(messages)
        if len(clips) > _MAX_CLIPS:
            raise InvalidRequest(
                f"there are {len(clips)} clips; a request may have {_MAX_CLIPS}",
                param=clips[_MAX_CLIPS].param,
            )
        max_pixels = _MAX_PIXELS // len(clips)

        def decoded(part: Part) -> Part:
            if not isinstance(part, VideoPart) or part.clip is not None:
                return part
            return replace(part, clip=self._clip(part, max_pixels))

        return tuple(replace(message, parts=tuple(map(decoded, message.parts))) for message in messages)

    def _clip(self, part: VideoPart, max_pixels: int) -> Clip:
        if part.max_frames is not None and part.max_frames > self._most:
            raise InvalidRequest(
                f"{part.param} asks for {part.max_frames} frames; a clip may have {self._most} here (setting "
                "vision.max_video_frames)",
                param=part.param,
            )
        max_frames = self._usual if part.max_frames is None else part.max_frames
        if part.has_frames:
            return _clip_of_frames(part, self._most if part.max_frames is None else max_frames, max_pixels)
        return self._clip_of_file(part, max_frames, max_pixels)

    def _clip_of_file(self, part: VideoPart, max_frames: int, max_pixels: int) -> Clip:
        (data,) = part.files
        kind = video_media_type(data[:64])
        if kind is None:
            # SEC: FFmpeg would also read playlists, which name other files.
            message = f"the clip in {part.param} is not MP4, MOV, WebM, GIF, animated WebP or animated PNG"
            raise InvalidRequest(message, param=part.param)
        with tempfile.TemporaryDirectory(prefix="mlxctl-clip-") as directory:
            path = Path(directory, f"clip.{kind.partition('/')[2]}")
            path.write_bytes(data)
            fps = DEFAULT_FPS if part.fps is None else part.fps
            arguments = (str(path), kind, str(fps), str(max_frames), str(max_pixels))
            try:
                answer = subprocess.run(  # noqa: S603 -- our own file, without a shell
                    (sys.executable, "-I", frame_reader.__file__, *arguments),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=max(self._until - time.monotonic(), 0.1),
                    check=True,
                ).stdout
            except subprocess.TimeoutExpired:
                raise _unreadable(part, f"takes longer than {_MAX_SECONDS:g} seconds to be decoded") from None
            except (subprocess.SubprocessError, OSError):
                raise _unreadable(
                    part, "ended its decoder: it is damaged, or takes too much memory"
                ) from None
        head, _, pixels = answer.partition(b"\n")
        found = json.loads(head)
        if "problem" in found:
            raise _unreadable(part, found["problem"])
        return _clip_of_pixels(found, pixels)


def _clip_of_pixels(found: dict[str, Any], pixels: bytes) -> Clip:
    from PIL import Image

    size = (found["width"], found["height"])
    num_bytes = 3 * size[0] * size[1]
    pictures = [
        Image.frombytes("RGB", size, pixels[start : start + num_bytes])
        for start in range(0, len(pixels), num_bytes)
    ]
    return Clip(pictures=tuple(pictures), seconds=tuple(found["seconds"]), duration=found["duration"])


def _clip_of_frames(part: VideoPart, max_frames: int, max_pixels: int) -> Clip:
    number, fps = len(part.files), DEFAULT_FPS if part.fps is None else part.fps
    if not number:
        raise _unreadable(part, "has no frames")
    if number > max_frames:
        raise _unreadable(part, f"has {number} frames; it may have {max_frames}")
    frames = [
        ImagePart(data=data, media_type="image/jpeg", param=f"{part.param}[{place}]")
        for place, data in enumerate(part.files)
    ]
    opened = open_images(frames)
    for place, picture in enumerate(opened):
        if picture.size != opened[0].size:
            raise _unreadable(part, f"has frames of different sizes: frame {place + 1} is unlike the first")
    if sum(picture.width * picture.height for picture in opened) > max_pixels:
        raise _unreadable(
            part, f"has more than {max_pixels} pixels in all frames together; send smaller ones"
        )
    pictures = [decode_image(picture, frame.param) for picture, frame in zip(opened, frames, strict=True)]
    seconds = tuple(place / fps for place in range(number))
    return Clip(pictures=tuple(pictures), seconds=seconds, duration=number / fps)


def _unreadable(part: VideoPart, reason: str) -> InvalidRequest:
    return InvalidRequest(f"the clip in {part.param} {reason}", param=part.param)
