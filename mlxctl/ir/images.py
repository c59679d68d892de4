"""Images and audio of a prompt, preprocessed. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionRecipe:
    """How a model's images are preprocessed, by the rules of its `family`.

    An image is resized to whole cells of `cell_size` pixels a side; each cell is one token. `sizes` are the
    family's other numbers, by their names in the models' files.

    Cells of clips have the token `video_token_id`, None for that of images.

    `axes` has the axis (0 time, 1 row, 2 column) of each rotary frequency, for positions with three axes.

    Colors from 0 to 1 are normalized by `mean` and `deviation` for red, green and blue. `resample` is
    Pillow's number of the resize filter.
    """

    family: str
    image_token_id: int
    cell_size: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    resample: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    axes: tuple[int, ...] = ()
    video_token_id: int | None = None

    @property
    def cell_token_ids(self) -> tuple[int, ...]:
        """The tokens that stand for cells."""
        return (self.image_token_id, *(() if self.video_token_id is None else (self.video_token_id,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The frames of a video that a model reads.

    `pictures` are Pillow's, 8-bit RGB of one size; `seconds` is when each is shown, of `duration` seconds.
    """

    pictures: tuple[Any, ...]
    seconds: tuple[float, ...]
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedImage:
    """One preprocessed image, group of frames or audio.

    It is `num_tokens` of a prompt from `start` on. `tiles` are height and width of each picture that the
    encoder gets, and `pixels` their bytes of red, green, blue, row by row. With `is_audio` there is one tile,
    of frames and the numbers of each, and `pixels` are these as float32. Positions after it continue
    `num_positions` after its start, which for some models is less than its number of tokens. With `is_whole`
    its tokens attend to each other in both directions, so they are prefilled together. `time` is added to
    their positions in time. `digest` is a hash of sizes, pixels and time: the token ids of all images are
    the same.
    """

    start: int
    num_tokens: int
    num_positions: int
    tiles: tuple[tuple[int, int], ...]
    pixels: bytes
    digest: bytes
    is_whole: bool = False
    time: int = 0
    is_audio: bool = False

    @classmethod
    def of(
        cls,
        pixels: bytes,
        *,
        tiles: tuple[tuple[int, int], ...],
        start: int,
        num_tokens: int,
        num_positions: int,
        is_whole: bool = False,
        time: int = 0,
        is_audio: bool = False,
    ) -> "ProcessedImage":
        """Return the image with its digest."""
        sizes = "+".join(f"{height} x {width}" for height, width in tiles)
        place = f"{sizes}@{time}" if time else sizes
        digest = blake2b(f"{place}:".encode(), digest_size=_DIGEST_BYTES)
        digest.update(pixels)
        return cls(
            start=start,
            num_tokens=num_tokens,
            num_positions=num_positions,
            tiles=tiles,
            pixels=pixels,
            digest=digest.digest(),
            is_whole=is_whole,
            time=time,
            is_audio=is_audio,
        )

    @property
    def end(self) -> int:
        """The position after its last token."""
        return self.start + self.num_tokens

    @property
    def height(self) -> int:
        """Height of its first picture, in pixels."""
        return self.tiles[0][0]

    @property
    def width(self) -> int:
        """Width of its first picture, in pixels."""
        return self.tiles[0][1]


_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


_ANIMATIONS = ("image/gif", "image/webp", "image/png")
_QUICKTIME_BRAND = b"qt  "


def video_media_type(data: bytes) -> str | None:
    """Return the media type of a clip by its first 64 bytes.

    None for what is no clip. Images that may be animated are clips.
    """
    if data[:4] == b"\x1a\x45\xdf\xa3":
        return "video/webm"
    image = image_media_type(data)
    if image is not None:
        return image if image in _ANIMATIONS else None
    if data[4:8] == b"ftyp":
        return "video/quicktime" if data[8:12] == _QUICKTIME_BRAND else "video/mp4"
    return "video/quicktime" if data[4:8] in (b"moov", b"mdat", b"wide", b"free") else None


def is_clip(data: bytes) -> bool:
    """Whether a file is a video or an animated GIF."""
    kind = video_media_type(data[:64])
    # Each frame of an animation begins with a graphic control extension.
    return data.count(b"!\xf9\x04") > 1 if kind == "image/gif" else bool(kind and kind.startswith("video/"))


def image_media_type(data: bytes) -> str | None:
    """Return the media type of an image by its first 64 bytes.

    None for what is no image.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        # Brands of the ISO base media file format: the main one, a version, the compatible ones.
        brands = [data[start : start + 4] for start in (8, *range(16, 64, 4))]
        if b"avif" in brands or b"avis" in brands:
            return "image/avif"
        return "image/heic" if any(brand in _HEIC_BRANDS for brand in brands) else None
    return next((kind for mark, kind in _SIGNATURES if data.startswith(mark)), None)
