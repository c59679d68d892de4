"""Images from this machine's disk, for models that see. What a file is, is told from its first bytes, not from its name."""

from pathlib import Path

from mlxctl.errors import StoreError
from mlxctl.ir import ImagePart

MAX_IMAGE_BYTES = 20_000_000
"""Largest file that is attached."""

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


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
