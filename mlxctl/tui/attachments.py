"""Images from this machine's disk, for models that see.

What a file is, is told from its first bytes, not from its name.
"""

from collections.abc import Sequence
from pathlib import Path

from mlxctl.errors import StoreError
from mlxctl.ir import ImagePart

MAX_IMAGE_BYTES = 20_000_000
"""What all images of a chat may have together: every question sends them all, and a server reads only so
much.
"""

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def read_images(paths: Sequence[Path], *, existing: Sequence[ImagePart] = ()) -> tuple[ImagePart, ...]:
    """Return the images of these files, for a chat that has some already.

    Raises StoreError with words for a person.
    """
    images: list[ImagePart] = []
    num_bytes = sum(len(image.data) for image in existing)
    for path in paths:
        images.append(read_image(path))
        num_bytes += len(images[-1].data)
        if num_bytes > MAX_IMAGE_BYTES:
            most = MAX_IMAGE_BYTES // 1_000_000
            raise StoreError(
                f"the images of this chat would have {num_bytes / 1e6:.1f} MB; all of them may have {most} MB together"
            )
    return tuple(images)


def read_image(path: Path) -> ImagePart:
    """Return the image. Raises StoreError with words for a person."""
    try:
        if path.expanduser().stat().st_size > MAX_IMAGE_BYTES:
            raise StoreError(f"{str(path)!r} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB")
        data = path.expanduser().read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return ImagePart(data=data, media_type=media_type)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ImagePart(data=data, media_type="image/webp")
    raise StoreError(f"{str(path)!r} is no PNG, JPEG, GIF or WebP image")
