"""Image files of requests, decoded to 8-bit RGB. Slow: for workers.

A small file may hold a huge image, so sizes are checked before decoding. Only the first frame of an animation
is used. Transparent pixels become white, 16 bits become 8, and EXIF orientation is applied.
"""

import io
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlxctl.ir import ImagePart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.images import image_media_type
from mlxctl.state.installed import missing_for

MAX_IMAGES = 128
"""Maximum number of images of one prompt."""

_MAX_PIXELS = 50_000_000
# Resizing takes memory for each pixel of a side: 2 GB for 1 x 49,000,000. JPEG has no longer sides.
_MAX_SIDE = 65_535
# Sum over all images of a prompt: about five seconds of decoding.
_MAX_TOTAL_PIXELS = 500_000_000
# A progressive JPEG has about ten scans. Each reads all pixels again: 49 megapixels with 310 scans, a file of
# 300 kB, took 15 seconds.
_MAX_SCANNED_PIXELS = 4_000_000_000
_SCAN = b"\xff\xda"
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
# The converter of macOS. Its formats need no package.
_SIPS = Path("/usr/bin/sips")
_SIPS_SECONDS = 10.0
_MODES_OF_16_BITS = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def open_images(images: Sequence[ImagePart]) -> list[Any]:
    """Return the images, opened but not decoded.

    Raises InvalidRequest for data that is no image, and for too many or too large images.
    """
    if len(images) > MAX_IMAGES:
        raise InvalidRequest(
            f"there are {len(images)} images; a request may have {MAX_IMAGES}", param="messages"
        )
    opened_images = [_opened(image) for image in images]
    num_pixels = sum(opened.width * opened.height for opened in opened_images)
    if num_pixels > _MAX_TOTAL_PIXELS:
        message = (
            f"the images have {num_pixels} pixels together; a request may have {_MAX_TOTAL_PIXELS}: "
            "send fewer, or smaller ones"
        )
        raise InvalidRequest(message, param="messages")
    num_scanned = sum(
        opened.width * opened.height * max(1, image.data.count(_SCAN))
        for image, opened in zip(images, opened_images, strict=True)
        if image_media_type(image.data) == "image/jpeg"
    )
    if num_scanned > _MAX_SCANNED_PIXELS:
        message = "the JPEG images have too many scans together; send fewer, smaller, or baseline ones"
        raise InvalidRequest(message, param="messages")
    return opened_images


def decode_image(opened: Any, param: str) -> Any:
    """Return an image as 8-bit RGB, and close its file.

    The field `param` of the request holds it. Raises InvalidRequest.
    """
    from PIL import ImageOps

    try:
        opened.load()
        return _opaque(_in_8_bits(ImageOps.exif_transpose(opened)))
    except Exception as error:
        # Decoders raise any exception for a damaged file.
        raise InvalidRequest(f"the image in {param} cannot be decoded: {error}", param=param) from error
    finally:
        opened.close()


def _opened(image: ImagePart) -> Any:
    from PIL import Image, UnidentifiedImageError

    name = f"the image in {image.param}"
    try:
        data, formats = _readable(image, name)
        opened = Image.open(io.BytesIO(data), formats=formats)
    except InvalidRequest:
        raise
    except UnidentifiedImageError:
        raise InvalidRequest(f"{name} is not one of {', '.join(_FORMATS)}", param=image.param) from None
    except Exception as error:
        # Any exception here is caused by the bytes.
        raise InvalidRequest(f"{name} cannot be decoded: {error}", param=image.param) from error
    if opened.width * opened.height > _MAX_PIXELS:
        message = f"{name} has {opened.width} x {opened.height} pixels; it may have {_MAX_PIXELS} pixels"
        raise InvalidRequest(message, param=image.param)
    if max(opened.size) > _MAX_SIDE:
        message = f"{name} has {opened.width} x {opened.height} pixels; a side may have {_MAX_SIDE}"
        raise InvalidRequest(message, param=image.param)
    return opened


def _readable(image: ImagePart, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Return data that Pillow reads, and the formats that it may have.

    HEIC is decoded by an extra, or by macOS. Raises InvalidRequest without both.
    """
    if image_media_type(image.data) != "image/heic":
        return image.data, _FORMATS
    missing = missing_for("heic")
    if missing and _SIPS.exists():
        return _converted_by_macos(image, name), ("JPEG",)
    if missing:
        raise InvalidRequest(f"{name} is HEIC, which needs {missing}", param=image.param)
    import pillow_heif

    # Only the image itself is decoded.
    pillow_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False)
    return image.data, ("HEIF",)


def _converted_by_macos(image: ImagePart, name: str) -> bytes:
    """Return a HEIC image as JPEG, written by macOS with its orientation."""
    with tempfile.TemporaryDirectory(prefix="mlxctl-") as directory:
        source, target = Path(directory, "image.heic"), Path(directory, "image.jpg")
        source.write_bytes(image.data)
        # 95 % loses less than the file itself has lost.
        command = [
            str(_SIPS),
            "-s",
            "format",
            "jpeg",
            "-s",
            "formatOptions",
            "95",
            str(source),
            "--out",
            str(target),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SIPS_SECONDS)  # noqa: S603
            return target.read_bytes()
        except (subprocess.SubprocessError, OSError):
            raise InvalidRequest(f"{name} is HEIC that macOS cannot read", param=image.param) from None


def _in_8_bits(opened: Any) -> Any:
    # Pillow would clip values above 255 of 65,535 to white.
    return (
        opened.convert("I").point(lambda value: value / 257).convert("L")
        if opened.mode in _MODES_OF_16_BITS
        else opened
    )


def _opaque(opened: Any) -> Any:
    from PIL import Image

    if not opened.has_transparency_data:
        return opened.convert("RGB")
    shown = opened.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown).convert("RGB")
