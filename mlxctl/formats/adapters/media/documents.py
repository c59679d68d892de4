"""Documents of a conversation as text and pictures.

Slow: for workers.
"""

from collections.abc import Sequence
from dataclasses import replace

from mlxctl.formats.adapters.media.pdf_files import MAX_PAGES, read_pdf
from mlxctl.ir import DocumentPart, Message, Part, ShownPart, TextPart, ToolResultPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.state.installed import missing_for

# Pages of a request with pictures, together with its images: drawing and encoding a page takes a second.
_MAX_PICTURES = 16


def read_documents(messages: Sequence[Message], *, takes_images: bool) -> tuple[Message, ...]:
    """Return the conversation with the pages of its documents.

    For a model that takes images, pages have pictures as long as there are fewer than _MAX_PICTURES images.
    Raises InvalidRequest for a document that cannot be read. In a tool result a note replaces it, because a
    client cannot take back the result of its tool.
    """
    num_images = sum(message.num_images + len(message.remote_images) for message in messages)
    reader = _Reader(
        max_pictures=_MAX_PICTURES - num_images if takes_images else 0, takes_images=takes_images
    )
    return tuple(
        replace(message, parts=tuple(new for part in message.parts for new in reader.read(part)))
        for message in messages
    )


class _Reader:
    """Reads the documents of one conversation, in order."""

    def __init__(self, *, max_pictures: int, takes_images: bool) -> None:
        self._num_pictures_left = max(max_pictures, 0)
        self._num_pages_left = MAX_PAGES
        self._takes_images = takes_images

    def read(self, part: Part) -> tuple[Part, ...]:
        """Return a part, or what is in a document."""
        if isinstance(part, DocumentPart):
            return self._pages(part)
        if isinstance(part, ToolResultPart):
            return (replace(part, content=tuple(new for old in part.content for new in self._noted(old))),)
        return (part,)

    def _noted(self, part: ShownPart) -> tuple[ShownPart, ...]:
        if not isinstance(part, DocumentPart):
            return (part,)
        try:
            return self._pages(part)
        except InvalidRequest as error:
            return (TextPart(text=f"This document was not read: {error}"),)

    def _pages(self, part: DocumentPart) -> tuple[ShownPart, ...]:
        if missing := missing_for("pdf"):
            raise InvalidRequest(
                f"{part.param} is a PDF, which needs {missing}; or send its text", param=part.param
            )
        pages = read_pdf(
            part.data, part.param, max_pages=self._num_pages_left, max_pictures=self._num_pictures_left
        )
        self._num_pages_left -= len(pages)
        self._num_pictures_left -= sum(page.picture is not None for page in pages)
        if not self._takes_images and not any(page.text for page in pages):
            raise InvalidRequest(
                f"{part.param} has no text, only pictures, and this model reads text only", param=part.param
            )
        shown: list[ShownPart] = []
        for number, page in enumerate(pages, start=1):
            shown.append(TextPart(text=f'<page number="{number}">\n'))
            shown += [page.picture] if page.picture is not None else []
            shown.append(TextPart(text=f"{page.text}\n</page>\n"))
        return tuple(shown)
