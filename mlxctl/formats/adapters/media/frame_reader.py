"""The process that decodes one clip.

`python -I frame_reader.py FILE KIND FPS MAX_FRAMES MAX_PIXELS` writes a line of JSON and then the frames:
8-bit red, green and blue, row by row. The line has `problem` for a clip that cannot be read, in place of
`width`, `height`, `seconds` and `duration`. A decoder that hangs or dies ends with this process. Needs
Pillow, and OpenCV for videos.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_MAX_MEMORY_BYTES = 4 << 30
_MIN_FRAMES = 4
# SEC: a small file may claim any size.
_MAX_PICTURE_PIXELS = 50_000_000
_MAX_ANIMATION_PIXELS = 2_000_000_000
_MAX_SOURCE_FRAMES = 1_000_000
# Frames to decode one by one rather than to seek: about the distance of key frames.
_MAX_SKIPPED = 250
# Containers may count a frame or two that they do not have.
_NUM_UNCERTAIN = 3
_ANIMATIONS = {"image/gif": "GIF", "image/webp": "WEBP", "image/png": "PNG"}
# Browsers show frames of an animation without a duration for that long.
_USUAL_SECONDS = 0.1


class UnreadableError(Exception):
    """A clip that cannot be read; the text says why."""


class Frames:
    """The chosen frames of a clip, and when each is shown."""

    def __init__(self, pictures: Iterator[Any], seconds: Sequence[float], duration: float) -> None:
        self.pictures = pictures
        self.seconds = seconds
        self.duration = duration


def choose(num_frames: int, duration: float, fps: float, max_frames: int) -> list[int]:
    """Return the numbers of evenly spaced frames, `fps` a second.

    An even number of them, unless all.
    """
    most = min(max_frames, num_frames)
    number = int(min(max(duration * fps, min(_MIN_FRAMES, most)), most))
    number -= number % 2 if 1 < number < num_frames else 0
    step = (num_frames - 1) / max(number - 1, 1)
    return [round(place * step) for place in range(number)]


def read_animation(path: str, kind: str, fps: float, max_frames: int) -> Frames:
    """Return the frames of an animated image."""
    from PIL import Image, ImageSequence

    image = Image.open(path, formats=[kind])
    num_frames = getattr(image, "n_frames", 1)
    _check_size(image.width, image.height)
    if num_frames * image.width * image.height > _MAX_ANIMATION_PIXELS:
        raise UnreadableError(
            f"has {num_frames} frames of {image.width} x {image.height} pixels, which are too many"
        )
    starts, end = [], 0.0
    for frame in ImageSequence.Iterator(image):
        starts.append(end)
        end += (frame.info.get("duration") or 0) / 1000 or _USUAL_SECONDS
    chosen = choose(num_frames, end, fps, max_frames)

    def pictures() -> Iterator[Any]:
        for number in chosen:
            image.seek(number)
            shown = image.convert("RGBA")
            yield Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert("RGB")

    return Frames(pictures(), [starts[number] for number in chosen], end)


def read_video(path: str, fps: float, max_frames: int) -> Frames:
    """Return the frames of a video, decoded by macOS or FFmpeg."""
    os.environ |= {"OPENCV_LOG_LEVEL": "OFF", "OPENCV_FFMPEG_LOGLEVEL": "-8"}
    try:
        import cv2
    except ImportError as error:
        raise UnreadableError(f"needs OpenCV, which cannot be imported here ({error})") from None
    backends = [cv2.CAP_FFMPEG]
    if sys.platform == "darwin":
        backends.insert(0, cv2.CAP_AVFOUNDATION)
    for backend in backends:
        source = cv2.VideoCapture(path, backend)
        if source.isOpened() and source.grab():
            return _opened_video(cv2, path, backend, fps, max_frames)
    raise UnreadableError("has no frame that can be decoded: it is damaged, or in an unknown format")


def _opened_video(cv2: Any, path: str, backend: int, fps: float, max_frames: int) -> Frames:
    from PIL import Image

    source = cv2.VideoCapture(path, backend)
    rate = source.get(cv2.CAP_PROP_FPS)
    _check_size(source.get(cv2.CAP_PROP_FRAME_WIDTH), source.get(cv2.CAP_PROP_FRAME_HEIGHT))
    num_frames = source.get(cv2.CAP_PROP_FRAME_COUNT)
    if not 0 < num_frames <= _MAX_SOURCE_FRAMES:
        # A recording of a browser does not say how long it is.
        num_frames = 0
        while source.grab() and num_frames <= _MAX_SOURCE_FRAMES:
            num_frames += 1
        source = cv2.VideoCapture(path, backend)
    if not math.isfinite(rate) or not 0 < rate <= 1000:
        rate = 1.0
    num_frames = int(num_frames)
    chosen = choose(num_frames, num_frames / rate, fps, max_frames)

    def pictures() -> Iterator[Any]:
        place = 0
        for number in chosen:
            picture = None
            for wanted in range(number, max(number - _NUM_UNCERTAIN, -1), -1):
                if not place <= wanted <= place + _MAX_SKIPPED:
                    source.set(cv2.CAP_PROP_POS_FRAMES, wanted)
                    place = wanted
                while place < wanted and source.grab():
                    place += 1
                is_read, picture = source.read()
                place = wanted + 1 if is_read else num_frames  # unknown: seek
                if is_read or num_frames - number > _NUM_UNCERTAIN:
                    break
            if picture is None:
                raise UnreadableError(
                    f"is damaged or cut off: frame {number + 1} of {num_frames} cannot be decoded"
                )
            yield Image.fromarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))

    return Frames(pictures(), [number / rate for number in chosen], num_frames / rate)


def _check_size(width: float, height: float) -> None:
    if width * height > _MAX_PICTURE_PIXELS:
        raise UnreadableError(
            f"has frames of {width:.0f} x {height:.0f} pixels; they may have {_MAX_PICTURE_PIXELS}"
        )


def read(path: str, kind: str, fps: float, max_frames: int, max_pixels: int) -> tuple[Frames, list[Any]]:
    """Return the frames, and their pictures of one size.

    These have at most `max_pixels` together. Raises UnreadableError.
    """
    frames = (
        read_animation(path, _ANIMATIONS[kind], fps, max_frames)
        if kind in _ANIMATIONS
        else read_video(path, fps, max_frames)
    )
    pictures: list[Any] = []
    for picture in frames.pictures:
        width, height = size = pictures[0].size if pictures else picture.size
        _check_size(width, height)
        if width * height * len(frames.seconds) > max_pixels:
            scale = math.sqrt(max_pixels / (width * height * len(frames.seconds)))
            size = (max(1, int(width * scale)), max(1, int(height * scale)))
        pictures.append(picture if size == picture.size else picture.resize(size))
    if not pictures:
        raise UnreadableError("has no frames")
    return frames, pictures


def main(path: str, kind: str, fps: str, max_frames: str, max_pixels: str) -> None:
    """Write the frames."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES,) * 2)
    pictures: list[Any] = []
    try:
        frames, pictures = read(path, kind, float(fps), int(max_frames), int(max_pixels))
        width, height = pictures[0].size
        head = {"seconds": frames.seconds, "duration": frames.duration, "width": width, "height": height}
    except UnreadableError as error:
        head = {"problem": str(error)}
    except Exception:
        # Decoders raise any exception for a damaged file.
        head = {"problem": "cannot be decoded: it is damaged, or too large"}
    with os.fdopen(1, "wb") as output:
        output.write(json.dumps(head).encode() + b"\n")
        for picture in pictures:
            output.write(picture.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
