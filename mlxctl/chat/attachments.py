"""Image, video and PDF files to attach to a question.

What a file is follows from its first bytes, not from its name.
"""

import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mlxctl.ir import DocumentPart, GenerationRequest, ImagePart, Message, Part, VideoPart
from mlxctl.ir.errors import StoreError
from mlxctl.ir.images import image_media_type, is_clip
from mlxctl.state.locations import expand_user
from mlxctl.state.locations.regular_file import read_regular_file

Attachment = ImagePart | VideoPart | DocumentPart

MAX_ATTACHED_BYTES = 20_000_000
"""Limit for all images, videos and PDF files of one chat: every request sends them all."""

_PDF_START = b"%PDF-"
# PDF readers allow other bytes before it.
_HEAD_BYTES = 1024


def read_attachments(paths: Sequence[Path], *, existing: Sequence[Attachment] = ()) -> tuple[Attachment, ...]:
    """Return the images, videos and PDF files at these paths.

    `existing` are those that the chat has already; they count toward the limit. Raises StoreError.
    """
    found: list[Attachment] = []
    num_bytes = sum(map(_num_bytes, existing))
    for path in paths:
        found.append(read_attachment(path))
        num_bytes += _num_bytes(found[-1])
        if num_bytes > MAX_ATTACHED_BYTES:
            most = MAX_ATTACHED_BYTES // 1_000_000
            size = f"{num_bytes / 1e6:.1f} MB in total; limit: {most} MB"
            raise StoreError(f"the images, videos and PDFs of this chat would have {size}")
    return tuple(found)


def read_attachment(path: Path) -> Attachment:
    """Return the image, video or PDF of one file. Raises StoreError."""
    check_is_file(path)
    try:
        data = read_regular_file(expand_user(path), MAX_ATTACHED_BYTES + 1)
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if len(data) > MAX_ATTACHED_BYTES:
        raise StoreError(f"{path.name!r} is larger than {MAX_ATTACHED_BYTES // 1_000_000} MB")
    if is_clip(data):
        return VideoPart(files=(data,), param=path.name)
    if media_type := image_media_type(data):
        return ImagePart(data=data, media_type=media_type)
    if is_pdf(data):
        return DocumentPart(data=data, param=path.name, filename=path.name)
    raise StoreError(
        f"{path.name!r} is not a PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or HEIC image, not an MP4, MOV or "
        "WebM video, and not a PDF file"
    )


def _num_bytes(one: Attachment) -> int:
    return sum(map(len, one.files)) if isinstance(one, VideoPart) else len(one.data)


def is_pdf(data: bytes) -> bool:
    """Whether a file starts as PDF files do."""
    return _PDF_START in data[:_HEAD_BYTES]


def attached_to(parts: Iterable[Part]) -> tuple[Attachment, ...]:
    """Return the images, videos and PDF files of a message."""
    return tuple(part for part in parts if isinstance(part, Attachment))


def describe_attached(attached: Sequence[Attachment]) -> str:
    """Return attachments as text: `2 images, report.pdf`; empty without any."""
    kinds: tuple[tuple[str, type[Attachment]], ...] = (("image", ImagePart), ("video", VideoPart))
    counts = ((kind, sum(isinstance(one, part) for one in attached)) for kind, part in kinds)
    seen = [f"{number} {kind}{'s' * (number != 1)}" for kind, number in counts if number]
    names = [one.filename or "document.pdf" for one in attached if isinstance(one, DocumentPart)]
    return ", ".join([*seen, *names])


def with_document_tags(request: GenerationRequest) -> GenerationRequest:
    """Return the request with PDF files as the chat routes read them.

    They are between tags with their names.
    """
    if not any(message.has_documents for message in request.messages):
        return request
    # PERF: only conversations with PDF files need the protocols package.
    from mlxctl.protocols.media import document_tags

    def tagged(part: Part) -> tuple[Part, ...]:
        if not isinstance(part, DocumentPart):
            return (part,)
        head, end = document_tags(part.filename)
        return (head, replace(part, filename=None), end)

    def read(message: Message) -> Message:
        return replace(message, parts=tuple(new for part in message.parts for new in tagged(part)))

    return replace(request, messages=tuple(map(read, request.messages)))


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
