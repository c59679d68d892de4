"""Images, audio and documents in request bodies: base64, and URLs of images.

Nothing is fetched here.
"""

import base64
import binascii
import re

import msgspec

from mlxctl.ir import AudioPart, DocumentPart, ImagePart, RemoteImagePart, TextPart
from mlxctl.ir.audio_format import audio_media_type
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.images import image_media_type

PDF = "application/pdf"

# What encoders write in other ways: the alphabet for URLs, and lines.
_PLAIN = str.maketrans("-_", "+/", " \t\r\n")

_PDF_URL = re.compile(r"data:application/pdf(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE)
_AUDIO_URL = re.compile(r"data:audio/[\w.+-]+(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE)
REMOTE_URL = re.compile(r"https?:", re.IGNORECASE)
_DATA_URL = re.compile(
    r"data:(?P<media_type>image/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,", re.ASCII | re.IGNORECASE
)


def image_from_url(url: str, path: str) -> ImagePart | RemoteImagePart:
    """Return the image of a URL: its data, or one to fetch.

    Raises InvalidRequest.
    """
    if REMOTE_URL.match(url):
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
    data = decode_base64(url[header.end() :], path)
    return ImagePart(data=data, media_type=header["media_type"].lower(), param=path)


def image_from_bytes(data: str, path: str) -> ImagePart:
    """Return the image of base64 `data` without a media type. Raises InvalidRequest."""
    decoded = decode_base64(data, path)
    return ImagePart(data=decoded, media_type=image_media_type(decoded) or "image/png", param=path)


def image_from_base64(data: str, media_type: str, path: str) -> ImagePart:
    """Return the image of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    if not media_type.startswith("image/"):
        raise InvalidRequest(
            f"{path}.media_type is {media_type!r}; it must be an image type such as 'image/png'",
            param=f"{path}.media_type",
        )
    return ImagePart(data=decode_base64(data, f"{path}.data"), media_type=media_type, param=path)


def document_from_data_url(url: str, path: str) -> DocumentPart:
    """Return the document of a data URL. Raises InvalidRequest."""
    header = _PDF_URL.match(url)
    if header is None:
        raise InvalidRequest(
            f"{path} must be a data URL of a PDF, 'data:application/pdf;base64,…'; send other files as text",
            param=path,
        )
    return DocumentPart(data=decode_base64(url[header.end() :], path), param=path)


def document_from_base64(data: str, media_type: str, path: str) -> DocumentPart:
    """Return the document of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    if media_type.lower() != PDF:
        raise InvalidRequest(
            f"{path}.media_type is {media_type!r}; it must be {PDF!r}; send other documents as text "
            "(source type 'text' or 'content')",
            param=f"{path}.media_type",
        )
    return DocumentPart(data=decode_base64(data, f"{path}.data"), param=path)


def document_tags(title: str | None, context: str | None = None) -> tuple[TextPart, TextPart]:
    """Return the texts before and after a document."""
    named = "" if title is None else f" title={msgspec.json.encode(title).decode()}"
    start = f"{context}\n" if context else ""
    return TextPart(text=f"<document{named}>\n{start}"), TextPart(text="\n</document>\n")


def file_parts(
    file_data: str | None, filename: str | None, path: str, *, file_id: str | None
) -> tuple[TextPart | DocumentPart, ...]:
    """Return the parts of an OpenAI file. Raises InvalidRequest."""
    if file_id is not None:
        raise InvalidRequest(
            f"{path}.file_id is not supported: there are no uploaded files; send file_data",
            param=f"{path}.file_id",
        )
    if file_data is None:
        raise InvalidRequest(f"{path}.file_data is missing; send a data URL", param=f"{path}.file_data")
    head, end = document_tags(filename)
    return head, document_from_data_url(file_data, f"{path}.file_data"), end


def audio_from_base64(data: str, audio_format: str, path: str) -> AudioPart:
    """Return the audio of base64 `data`; `path` is that of its object.

    Raises InvalidRequest.
    """
    return AudioPart(data=decode_base64(data, f"{path}.data"), media_type=f"audio/{audio_format}", param=path)


def audio_from_url(url: str, path: str) -> AudioPart:
    """Return the audio of a `data:audio/…;base64,…` URL, of any kind. Raises InvalidRequest."""
    if _AUDIO_URL.match(url) is None:
        raise InvalidRequest(
            f"{path} must be a data URL such as 'data:audio/wav;base64,…'; other URLs of audio are not "
            "fetched, so send the bytes",
            param=path,
        )
    data = recording_from_base64(url, path)
    return AudioPart(data=data, media_type=audio_media_type(data) or "audio/wav", param=path)


def recording_from_base64(data: str, path: str) -> bytes:
    """Return the file in base64 or a data URL. Raises InvalidRequest."""
    if REMOTE_URL.match(data):
        raise InvalidRequest(f"{path} is a URL, which is not fetched; send the file as base64", param=path)
    header = _AUDIO_URL.match(data)
    return decode_base64(data if header is None else data[header.end() :], path)


def decode_base64(data: str, path: str) -> bytes:
    """Decode base64 of both alphabets, with line breaks and without padding too."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        plain = data.translate(_PLAIN)
        try:
            decoded = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest(f"{path} is not valid base64", param=path) from error
    if not decoded:
        raise InvalidRequest(f"{path} holds no bytes; send the encoded file", param=path)
    return decoded
