"""Files of images as people and programs make them are read as they look; what is damaged, or a trap, is
refused.
"""

import io
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as st
from PIL import Image

from mlxctl.adapters.media.image_files import MAX_IMAGES, decode_image, open_images
from mlxctl.errors import InvalidRequest
from mlxctl.ir import ImagePart

ORANGE, WHITE = (250, 120, 10), (255, 255, 255)


def file(image: Any, kind: str = "PNG", **options: Any) -> ImagePart:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return ImagePart(data=written.getvalue(), media_type=f"image/{kind.lower()}")


def pixels(image: ImagePart) -> Any:
    """The image as it is decoded, (height, width, 3)."""
    (opened,) = open_images([image])
    decoded = decode_image(opened, 1)
    assert decoded.mode == "RGB"
    return np.asarray(decoded)


def is_all(image: ImagePart, color: Sequence[int], *, within: int = 0) -> bool:
    return bool((np.abs(pixels(image).astype(int) - np.array(color)) <= within).all())


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "PNG"), ("P", "PNG"), ("P", "GIF"), ("RGB", "JPEG"), ("CMYK", "JPEG"), ("RGB", "WEBP")],
)
def test_a_color_is_that_color_in_every_kind_of_file(mode: str, kind: str) -> None:
    shown = Image.new("RGB", (32, 16), ORANGE)
    shown = shown.quantize(8) if mode == "P" else shown.convert(mode)
    assert is_all(file(shown, kind), ORANGE, within=6)


def test_gray_is_gray_in_8_bits_and_in_16() -> None:
    assert is_all(file(Image.new("L", (4, 4), 100)), (100, 100, 100))
    sixteen = Image.fromarray(np.full((4, 4), 100 * 257, dtype=np.uint16))
    assert sixteen.mode == "I;16"
    assert is_all(file(sixteen), (100, 100, 100))


@pytest.mark.parametrize(("mode", "color"), [("RGBA", (10, 20, 30, 0)), ("LA", (10, 0))])
def test_what_is_transparent_is_white(mode: str, color: tuple[int, ...]) -> None:
    assert is_all(file(Image.new(mode, (4, 4), color)), WHITE)


def test_what_is_half_transparent_is_half_as_dark() -> None:
    assert is_all(file(Image.new("RGBA", (4, 4), (0, 0, 0, 128))), (127, 127, 127))


def test_a_transparent_color_of_a_palette_is_white() -> None:
    shown = Image.new("P", (4, 4), 0)
    shown.putpalette([10, 20, 30, *ORANGE])
    assert is_all(file(shown, "GIF", transparency=0), WHITE)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_shown(kind: str) -> None:
    first, second = Image.new("RGB", (16, 16), ORANGE), Image.new("RGB", (16, 16), (0, 0, 200))
    assert is_all(file(first, kind, save_all=True, append_images=[second], duration=100), ORANGE, within=6)


def test_a_picture_is_turned_as_the_camera_was_held() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    shown = Image.new("RGB", (40, 20), WHITE)
    shown.paste(ORANGE, (0, 0, 16, 20))
    seen = pixels(file(shown, "JPEG", exif=turned)).astype(int)
    assert seen.shape == (40, 20, 3)
    assert abs(seen[4, 10] - ORANGE).max() < 12
    assert abs(seen[36, 10] - WHITE).max() < 12


def bomb(width: int, height: int) -> ImagePart:
    """A PNG of a few bytes that says that it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )
    return ImagePart(data=data, media_type="image/png")


SOUND = file(Image.linear_gradient("L").convert("RGB"))


@pytest.mark.parametrize(
    ("images", "error"),
    [
        ([ImagePart(data=b"no image", media_type="image/png")], "image 1 is none of PNG, JPEG, WEBP, GIF"),
        ([SOUND, file(Image.new("RGB", (4, 4)), "BMP")], "image 2 is none of PNG, JPEG, WEBP, GIF"),
        ([bomb(9000, 9000)], "image 1 has 9000 x 9000 pixels; it may have 50000000"),
        ([bomb(1 << 20, 1 << 20)], "image 1 cannot be decoded"),
        ([bomb(7000, 7000)] * 5, "the images have 245000000 pixels together; a request may have 200000000"),
        ([SOUND] * (MAX_IMAGES + 1), f"there are {MAX_IMAGES + 1} images; a request may have {MAX_IMAGES}"),
    ],
)
def test_what_is_no_picture_or_too_much_is_refused_before_it_is_decoded(
    images: list[ImagePart], error: str
) -> None:
    with pytest.raises(InvalidRequest, match=error) as refusal:
        open_images(images)
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "damaged", [ImagePart(data=SOUND.data[:200], media_type="image/png"), bomb(200, 200)]
)
def test_a_file_that_breaks_off_is_refused(damaged: ImagePart) -> None:
    (opened,) = open_images([damaged])
    with pytest.raises(InvalidRequest, match="image 3 cannot be decoded"):
        decode_image(opened, 3)


FILES = [
    file(Image.linear_gradient("L").resize((20, 20)).convert("RGB"), kind).data
    for kind in ("PNG", "JPEG", "WEBP", "GIF")
]


@given(
    data=st.sampled_from(FILES),
    place=st.integers(0, 1 << 16),
    junk=st.binary(min_size=1, max_size=8),
    cut=st.integers(0, 1 << 16),
)
@checks(max_examples=300, deadline=None)
def test_a_damaged_file_is_a_picture_or_refused_and_nothing_else(
    data: bytes, place: int, junk: bytes, cut: int
) -> None:
    place, cut = place % len(data), len(data) - cut % len(data)
    damaged = (data[:place] + junk + data[place + len(junk) :])[:cut]
    with suppress(InvalidRequest):
        assert pixels(ImagePart(data=damaged, media_type="image/png")).ndim == 3
