"""Image files of many kinds decode correctly; damaged ones raise."""

import io
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
import pytest
from hypothesis import given
from hypothesis import settings as checks
from hypothesis import strategies as st
from PIL import Image

from mlxctl.formats.adapters.media import image_files
from mlxctl.formats.adapters.media.image_files import MAX_IMAGES, decode_image, open_images
from mlxctl.ir import ImagePart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.images import image_media_type
from mlxctl.state.installed import EXTRAS

ORANGE, WHITE = (250, 120, 10), (255, 255, 255)


def file(image: Any, kind: str = "PNG", **options: Any) -> ImagePart:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return ImagePart(data=written.getvalue(), media_type=f"image/{kind.lower()}")


def pixels(image: ImagePart) -> Any:
    """Return the decoded image, (height, width, 3)."""
    (opened,) = open_images([image])
    decoded = decode_image(opened, "messages")
    assert decoded.mode == "RGB"
    return np.asarray(decoded)


def is_all(image: ImagePart, color: Sequence[int], *, within: int = 0) -> bool:
    return bool((np.abs(pixels(image).astype(int) - np.array(color)) <= within).all())


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("RGB", "PNG"),
        ("P", "PNG"),
        ("P", "GIF"),
        ("RGB", "JPEG"),
        ("CMYK", "JPEG"),
        ("RGB", "WEBP"),
        ("RGB", "BMP"),
        ("P", "BMP"),
        ("RGB", "TIFF"),
        ("CMYK", "TIFF"),
        ("RGB", "AVIF"),
    ],
)
def test_every_file_format_decodes_to_the_same_color(mode: str, kind: str) -> None:
    shown = Image.new("RGB", (32, 16), ORANGE)
    shown = shown.quantize(8) if mode == "P" else shown.convert(mode)
    assert is_all(file(shown, kind), ORANGE, within=6)


@pytest.fixture(scope="module", autouse=True)
def write_heic() -> None:
    pillow_heif.register_heif_opener()


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_heic_decodes_to_the_same_color(mode: str) -> None:
    image = file(Image.new("RGB", (64, 48), ORANGE).convert(mode), "HEIF", quality=-1)
    color = ORANGE if mode != "L" else (Image.new("RGB", (1, 1), ORANGE).convert("L").getpixel((0, 0)),) * 3
    assert is_all(image, color, within=6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/webp"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
        ("AVIF", "image/avif"),
        ("HEIF", "image/heic"),
        ("PDF", None),
        ("ICO", None),
    ],
)
def test_media_type_is_read_from_the_first_bytes(kind: str, media_type: str | None) -> None:
    image = file(Image.new("RGB", (64, 64), ORANGE), kind)
    assert image_media_type(image.data[:64]) == media_type


def test_camera_rotation_of_heic_is_applied_once() -> None:
    shown = Image.new("RGB", (64, 32), ORANGE)
    exif = Image.Exif()
    exif[0x0112] = 6
    assert pixels(file(shown, "HEIF", quality=-1, exif=exif.tobytes())).shape == (64, 32, 3)


def test_heic_without_its_extra_is_converted_by_macos(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = file(Image.new("RGB", (8, 8), ORANGE), "JPEG")
    (tmp_path / "shown.jpg").write_bytes(shown.data)
    sips = tmp_path / "sips"
    # Its last argument is the file to write, as that of the real one.
    sips.write_text(f'#!/bin/sh\nfor target; do :; done\ncp {tmp_path}/shown.jpg "$target"\n')
    sips.chmod(0o700)
    monkeypatch.setattr(image_files, "_SIPS", sips)
    monkeypatch.setitem(EXTRAS, "heic", {"no_such_module": "pillow-heif"})  # type: ignore[misc]
    heic = file(Image.new("RGB", (64, 64), ORANGE), "HEIF")
    assert (pixels(heic) == pixels(shown)).all()
    (tmp_path / "shown.jpg").unlink()
    with pytest.raises(InvalidRequest, match="is HEIC that macOS cannot read"):
        open_images([heic])


def test_heic_without_its_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    image = file(Image.new("RGB", (64, 64), ORANGE), "HEIF")
    monkeypatch.setitem(EXTRAS, "heic", {"no_such_module": "pillow-heif"})  # type: ignore[misc]
    with pytest.raises(InvalidRequest, match=r"is HEIC, which needs .*pip install 'mlxctl\[heic\]'"):
        open_images([image])


@pytest.mark.parametrize("length", [40, 200, 400])
def test_heic_that_is_cut_off_is_refused(length: int) -> None:
    image = file(Image.effect_noise((64, 64), 100).convert("RGB"), "HEIF")
    with pytest.raises(InvalidRequest, match=r"cannot be decoded|is not one of"):
        pixels(ImagePart(data=image.data[:length], media_type="image/heic"))


def test_gray_decodes_equally_from_8_and_16_bits() -> None:
    assert is_all(file(Image.new("L", (4, 4), 100)), (100, 100, 100))
    sixteen = Image.fromarray(np.full((4, 4), 100 * 257, dtype=np.uint16))
    assert sixteen.mode == "I;16"
    assert is_all(file(sixteen), (100, 100, 100))


def test_only_the_first_page_of_a_tiff_is_used() -> None:
    pages = [Image.new("RGB", (4, 4), color) for color in (ORANGE, WHITE)]
    assert is_all(file(pages[0], "TIFF", save_all=True, append_images=pages[1:]), ORANGE)


@pytest.mark.parametrize(("mode", "color"), [("RGBA", (10, 20, 30, 0)), ("LA", (10, 0))])
def test_transparent_pixels_become_white(mode: str, color: tuple[int, ...]) -> None:
    assert is_all(file(Image.new(mode, (4, 4), color)), WHITE)


def test_half_transparent_pixels_blend_with_white() -> None:
    assert is_all(file(Image.new("RGBA", (4, 4), (0, 0, 0, 128))), (127, 127, 127))


def test_transparent_palette_color_becomes_white() -> None:
    shown = Image.new("P", (4, 4), 0)
    shown.putpalette([10, 20, 30, *ORANGE])
    assert is_all(file(shown, "GIF", transparency=0), WHITE)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation_is_used(kind: str) -> None:
    first, second = Image.new("RGB", (16, 16), ORANGE), Image.new("RGB", (16, 16), (0, 0, 200))
    assert is_all(file(first, kind, save_all=True, append_images=[second], duration=100), ORANGE, within=6)


def test_exif_orientation_is_applied() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    shown = Image.new("RGB", (40, 20), WHITE)
    shown.paste(ORANGE, (0, 0, 16, 20))
    seen = pixels(file(shown, "JPEG", exif=turned)).astype(int)
    assert seen.shape == (40, 20, 3)
    assert abs(seen[4, 10] - ORANGE).max() < 12
    assert abs(seen[36, 10] - WHITE).max() < 12


def bomb(width: int, height: int) -> ImagePart:
    """Return a PNG of a few bytes that declares a huge size."""

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


def scans(width: int, height: int, *, number: int) -> ImagePart:
    """Return a small JPEG that declares a size and has empty scans."""
    data = file(Image.new("RGB", (8, 8)), "JPEG").data
    place = data.index(b"\xff\xc0") + 5
    data = data[:place] + struct.pack(">HH", height, width) + data[place + 4 : -2]
    return ImagePart(data=data + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * (number - 1), media_type="image/jpeg")


SOUND = file(Image.linear_gradient("L").convert("RGB"))


@pytest.mark.parametrize(
    ("images", "error"),
    [
        (
            [ImagePart(data=b"no image", media_type="image/png")],
            "the image in messages is not one of PNG, JPEG, WEBP, GIF, BMP",
        ),
        ([SOUND, file(Image.new("RGB", (4, 4)), "ICO")], "is not one of PNG, JPEG, WEBP, GIF, BMP"),
        ([bomb(9000, 9000)], "the image in messages has 9000 x 9000 pixels; it may have 50000000"),
        ([bomb(1 << 20, 1 << 20)], "the image in messages cannot be decoded"),
        ([bomb(1, 49_000_000)], "the image in messages has 1 x 49000000 pixels; a side may have 65535"),
        ([bomb(7000, 7000)] * 11, "the images have 539000000 pixels together; a request may have 500000000"),
        ([scans(7000, 7000, number=100)], "the JPEG images have too many scans together"),
        ([SOUND] * (MAX_IMAGES + 1), f"there are {MAX_IMAGES + 1} images; a request may have {MAX_IMAGES}"),
    ],
)
def test_invalid_or_too_large_images_raise_before_decoding(images: list[ImagePart], error: str) -> None:
    with pytest.raises(InvalidRequest, match=error) as refusal:
        open_images(images)
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "damaged", [ImagePart(data=SOUND.data[:200], media_type="image/png"), bomb(200, 200)]
)
def test_truncated_image_file_raises(damaged: ImagePart) -> None:
    (opened,) = open_images([damaged])
    with pytest.raises(InvalidRequest, match="cannot be decoded") as refusal:
        decode_image(opened, "messages[2].content[0]")
    assert refusal.value.param == "messages[2].content[0]"


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
@checks(max_examples=120, deadline=None)
def test_damaged_file_decodes_or_raises_invalid_request(
    data: bytes, place: int, junk: bytes, cut: int
) -> None:
    place, cut = place % len(data), len(data) - cut % len(data)
    damaged = (data[:place] + junk + data[place + len(junk) :])[:cut]
    with suppress(InvalidRequest):
        assert pixels(ImagePart(data=damaged, media_type="image/png")).ndim == 3
