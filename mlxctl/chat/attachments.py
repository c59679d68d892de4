"""Image files to attach to a question.

The media type is detected from the first bytes, not from the file name.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

from mlxctl.ir import ImagePart
from mlxctl.ir.errors import StoreError
from mlxctl.ir.images import image_media_type
from mlxctl.state.locations import expand_user
from mlxctl.state.locations.regular_file import read_regular_file

MAX_IMAGE_BYTES = 20_000_000
"""Limit for all images of one chat: every request sends them all."""


def read_images(paths: Sequence[Path], *, existing: Sequence[ImagePart] = ()) -> tuple[ImagePart, ...]:
    """Return the images of these files.

    `existing` are the images that the chat has already; they count toward the limit. Raises StoreError.
    """
    images: list[ImagePart] = []
    num_bytes = sum(len(image.data) for image in existing)
    for path in paths:
        images.append(read_image(path))
        num_bytes += len(images[-1].data)
        if num_bytes > MAX_IMAGE_BYTES:
            most = MAX_IMAGE_BYTES // 1_000_000
            raise StoreError(
                f"the images of this chat would have {num_bytes / 1e6:.1f} MB in total; limit: {most} MB"
            )
    return tuple(images)


def read_image(path: Path) -> ImagePart:
    """Return the image of one file. Raises StoreError."""
    check_is_file(path)
    try:
        data = read_regular_file(expand_user(path), MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if len(data) > MAX_IMAGE_BYTES:
        raise StoreError(f"{path.name!r} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB")
    if media_type := image_media_type(data):
        return ImagePart(data=data, media_type=media_type)
    raise StoreError(f"{path.name!r} is not a PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or HEIC image")


def check_is_file(path: Path) -> None:
    """Raise StoreError for what is no regular file.

    Reading a pipe or a device may take forever, and freeze the screen.
    """
    try:
        mode = expand_user(path).stat().st_mode
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise StoreError(f"{str(path)!r} is a {'directory' if stat.S_ISDIR(mode) else 'device or pipe'}")
