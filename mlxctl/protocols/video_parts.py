"""Clips in request bodies: vLLM's, Qwen's and Responses' content parts.

Frames are images in a list, or the base64 of each after a comma in one `data:video/jpeg` URL.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from mlxctl.ir import Message, Part, RemoteImagePart, VideoPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.media import REMOTE_URL, decode_base64, image_from_data_url
from mlxctl.protocols.ranges import MAX_MESSAGES
from mlxctl.protocols.validation_errors import missing

_DATA_URL = re.compile(
    r"data:(?P<media_type>(?:video|image)/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE
)

_MAX_FPS = 60.0
Fps = Annotated[float, Meta(gt=0, le=_MAX_FPS)]
MaxFrames = Annotated[int, Meta(ge=1, le=1024)]
Frames = Annotated[list[str], Meta(max_length=MAX_MESSAGES)]


class VideoOptions(Struct, kw_only=True):
    """How the frames of a clip are chosen.

    `fps` a second, at most `max_frames`. Frames that the client chose were `fps` a second.
    """

    fps: Fps | None = None
    max_frames: MaxFrames | None = None


class ProcessorOptions(VideoOptions, forbid_unknown_fields=True):
    """vLLM's options of the processor for all clips of a request.

    `num_frames` are chosen of a clip, whatever its length. A client's own frames are all read.
    """

    num_frames: MaxFrames | None = None


class VideoUrl(Struct):
    """A URL of a clip, with its data or to be fetched."""

    url: str


class VideoUrlPart(VideoOptions, tag_field="type", tag="video_url"):
    """A clip of a message, as in vLLM and SGLang."""

    video_url: VideoUrl | str


class QwenVideoPart(VideoOptions, tag_field="type", tag="video"):
    """A clip of a message, or its frames, as Qwen's clients send."""

    video: str | Frames


class InputVideoPart(VideoOptions, tag_field="type", tag="input_video"):
    """A clip of an input message."""

    video_url: VideoUrl | str | None = None
    video: str | Frames | None = None


VideoContent = VideoUrlPart | QwenVideoPart | InputVideoPart


def video_of(part: VideoContent, path: str) -> VideoPart | RemoteImagePart:
    """Return the clip of a content part. Raises InvalidRequest."""
    url = None if isinstance(part, QwenVideoPart) else part.video_url
    if isinstance(url, VideoUrl):
        return video_from(url.url, f"{path}.video_url.url", part)
    if url is not None:
        return video_from(url, f"{path}.video_url", part)
    video = None if isinstance(part, VideoUrlPart) else part.video
    if video is None:
        raise missing(f"{path}.video_url")
    return video_from(video, f"{path}.video", part)


def video_from(source: str | Sequence[str], path: str, options: VideoOptions) -> VideoPart | RemoteImagePart:
    """Return the clip of a URL or of frames. Raises InvalidRequest."""
    if isinstance(source, str) and not REMOTE_URL.match(source):
        return video_from_data_url(source, path, options)
    clip = VideoPart(fps=options.fps, max_frames=options.max_frames, param=path)
    if isinstance(source, str):
        return RemoteImagePart(url=source, video=clip, param=path)
    frames = (image_from_data_url(url, f"{path}[{index}]").data for index, url in enumerate(source))
    return replace(clip, files=tuple(frames), has_frames=True)


def video_from_data_url(url: str, path: str, options: VideoOptions) -> VideoPart:
    """Return the clip of a `data:video/…;base64,…` URL. Raises InvalidRequest."""
    header = _DATA_URL.match(url)
    if header is None:
        raise InvalidRequest(
            f"{path} must be a data URL such as 'data:video/mp4;base64,…'; other URLs are not fetched, so "
            "send the bytes",
            param=path,
        )
    has_frames = header["media_type"].lower() == "video/jpeg"
    encoded = url[header.end() :].split(",", MAX_MESSAGES if has_frames else 0)
    return VideoPart(
        files=tuple(decode_base64(data, path) for data in encoded),
        has_frames=has_frames,
        fps=options.fps,
        max_frames=options.max_frames,
        param=path,
    )


def video_from_base64(data: str, media_type: str, path: str, options: VideoOptions) -> VideoPart:
    """Return the clip of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    if not media_type.startswith(("video/", "image/")):
        raise InvalidRequest(
            f"{path}.media_type is {media_type!r}; it must be a video type such as 'video/mp4'",
            param=f"{path}.media_type",
        )
    return video_from_data_url(f"data:{media_type};base64,{data}", f"{path}.data", options)


def with_options(messages: tuple[Message, ...], options: ProcessorOptions | None) -> tuple[Message, ...]:
    """Return the messages with the options of all clips that set none."""
    if options is None:
        return messages

    def chosen(part: Part) -> Part:
        if isinstance(part, RemoteImagePart) and part.video is not None:
            return replace(part, video=_with_defaults(part.video, options))
        return _with_defaults(part, options) if isinstance(part, VideoPart) else part

    return tuple(replace(message, parts=tuple(map(chosen, message.parts))) for message in messages)


def _with_defaults(clip: VideoPart, options: ProcessorOptions) -> VideoPart:
    fps = options.fps if clip.fps is None else clip.fps
    max_frames = options.max_frames if clip.max_frames is None else clip.max_frames
    if options.num_frames is not None and not clip.has_frames:
        fps = _MAX_FPS if fps is None else fps
        max_frames = options.num_frames if max_frames is None else max_frames
    return replace(clip, fps=fps, max_frames=max_frames)
