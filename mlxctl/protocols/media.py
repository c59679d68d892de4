"""Images and audio in request bodies, as base64.

Addresses are refused, never fetched.
"""

import base64
import binascii
import re

from mlxctl.errors import InvalidRequest
from mlxctl.ir import AudioPart, ImagePart

_SIGNATURES = {b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_DATA_URL = re.compile(
    r"data:(?P<media_type>image/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE
)


def image_from_data_url(url: str, path: str) -> ImagePart:
    """Return the image of a `data:image/…;base64,…` URL. Raises InvalidRequest."""
    header = _DATA_URL.match(url)
    if header is None:
        raise InvalidRequest(
            f"{path} must be a data URL such as 'data:image/png;base64,…'; remote images are not fetched, "
            "so send the bytes",
            param=path,
        )
    return ImagePart(data=_decode(url[header.end() :], path), media_type=header["media_type"].lower())


def image_from_bytes(data: str, path: str) -> ImagePart:
    """Return the image of base64 `data` without a media type. Raises InvalidRequest."""
    decoded = _decode(data, path)
    found = (kind for mark, kind in _SIGNATURES.items() if decoded.startswith(mark))
    return ImagePart(data=decoded, media_type=next(found, "image/png"))


def image_from_base64(data: str, media_type: str, path: str) -> ImagePart:
    """Return the image of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    if not media_type.startswith("image/"):
        raise InvalidRequest(
            f"{path}.media_type is {media_type!r}; it must be an image type such as 'image/png'",
            param=f"{path}.media_type",
        )
    return ImagePart(data=_decode(data, f"{path}.data"), media_type=media_type)


def audio_from_base64(data: str, audio_format: str, path: str) -> AudioPart:
    """Return the audio of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    return AudioPart(data=_decode(data, f"{path}.data"), media_type=f"audio/{audio_format}")


def _decode(data: str, path: str) -> bytes:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"{path} is not valid base64; send the standard alphabet with padding", param=path
        ) from error
    if not decoded:
        raise InvalidRequest(f"{path} holds no bytes; send the encoded file", param=path)
    return decoded
