"""Images and audio in request bodies: base64, and URLs of images.

Nothing is fetched here.
"""

import base64
import binascii
import re

from mlxctl.errors import InvalidRequest
from mlxctl.ir import AudioPart, ImagePart, RemoteImagePart
from mlxctl.ir.images import image_media_type

_REMOTE_URL = re.compile(r"https?:", re.IGNORECASE)
_DATA_URL = re.compile(
    r"data:(?P<media_type>image/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE
)


def image_from_url(url: str, path: str) -> ImagePart | RemoteImagePart:
    """Return the image of a data URL, or the URL of one to fetch. Raises InvalidRequest."""
    if _REMOTE_URL.match(url):
        return RemoteImagePart(url=url, param=path)
    return image_from_data_url(url, path)


def image_from_data_url(url: str, path: str) -> ImagePart:
    """Return the image of a `data:image/…;base64,…` URL. Raises InvalidRequest."""
    header = _DATA_URL.match(url)
    if header is None:
        raise InvalidRequest(
            f"{path} must be a data URL such as 'data:image/png;base64,…'; other URLs are not fetched, so "
            "send the bytes",
            param=path,
        )
    return ImagePart(data=_decode(url[header.end() :], path), media_type=header["media_type"].lower())


def image_from_bytes(data: str, path: str) -> ImagePart:
    """Return the image of base64 `data` without a media type. Raises InvalidRequest."""
    decoded = _decode(data, path)
    return ImagePart(data=decoded, media_type=image_media_type(decoded) or "image/png")


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
