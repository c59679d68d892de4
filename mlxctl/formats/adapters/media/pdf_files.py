"""PDF files of requests: text and pictures of pages.

Slow: for workers. Forms are not drawn and scripts do not run. A file without text layer, such as a scan, has
pictures only.
"""

import io
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.ir import ImagePart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.state.installed import missing_for

MAX_PAGES = 100
"""Maximum number of pages of all documents of a request."""

_MAX_CHARS = 4_000_000
_MAX_MEMORY_BYTES = 1 << 30
_MAX_CPU_SECONDS = 5.0
# About 1,000 tokens of Qwen2-VL for a page; the text is read besides.
_PICTURE_SIDE = 1024
_POINTS_PER_INCH = 72
_MAX_DPI = 150
# PDFium's marks of a hyphen at the end of a line, and what is no text.
_REPLACED = {0xFFFE: "-", 0x02: "-", 0x00: None, 0xFFFF: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfPage:
    """A page: its text, and its picture if one was wanted."""

    text: str
    picture: ImagePart | None = None


def read_pdf(data: bytes, param: str, *, max_pages: int, max_pictures: int) -> list[PdfPage]:
    """Return the pages of a PDF file.

    The first `max_pictures` of them have a picture. Raises InvalidRequest, which names `param`.
    """
    with _opened(data, param) as document:
        num_pages = len(document)
        if num_pages > max_pages:
            raise InvalidRequest(
                f"{param} has {num_pages} pages; the documents of a request may have {MAX_PAGES} together",
                param=param,
            )
        pages: list[PdfPage] = []
        num_chars = 0
        for number in range(num_pages):
            page = document[number]
            text = _text(page, param, max_chars=_MAX_CHARS - num_chars)
            num_chars += len(text)
            picture = _picture(page) if number < max_pictures else None
            pages.append(PdfPage(text=text, picture=picture))
            page.close()
    return pages


def reads_pdfs() -> bool:
    """Whether the extra that reads PDFs is installed."""
    return missing_for("pdf") is None


@contextmanager
def _opened(data: bytes, param: str) -> Iterator[Any]:
    """Yield the document; what PDFium says about it becomes an InvalidRequest."""
    import pypdfium2

    try:
        with _bounded_time(), _bounded_memory(), pypdfium2.PdfDocument(data) as document:
            yield document
    except MemoryError:
        raise InvalidRequest(f"{param} takes too much memory to be read", param=param) from None
    except pypdfium2.PdfiumError as error:
        is_locked = "password" in str(error).lower()
        reason = "is encrypted" if is_locked else f"cannot be read as PDF: {error}"
        raise InvalidRequest(f"{param} {reason}", param=param) from None


@contextmanager
def _bounded_time() -> Iterator[None]:
    """Let the process end after `_MAX_CPU_SECONDS`, or its own limit.

    SEC: a small file may unpack for long in one call of PDFium, which only a signal can stop. That fails only
    this request.
    """
    started = time.process_time()
    before, _ = signal.setitimer(signal.ITIMER_PROF, _MAX_CPU_SECONDS)
    if before:
        signal.setitimer(signal.ITIMER_PROF, min(before, _MAX_CPU_SECONDS))
    try:
        yield
    finally:
        left = max(before - (time.process_time() - started), 0.01)
        signal.setitimer(signal.ITIMER_PROF, left if before else 0)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let the process take `_MAX_MEMORY_BYTES` more, on Linux.

    SEC: a small file may unpack to gigabytes. PDFium ends its process when it gets no memory, which fails
    only this request. macOS has no such limit: there the time limit of preparation has to do.
    """
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + _MAX_MEMORY_BYTES
    limits = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _text(page: Any, param: str, *, max_chars: int) -> str:
    text_page = page.get_textpage()
    if text_page.count_chars() > max_chars:
        raise InvalidRequest(f"{param} has more than {_MAX_CHARS} characters; send fewer pages", param=param)
    text: str = text_page.get_text_bounded()
    text_page.close()
    return text.replace("\r\n", "\n").translate(_REPLACED).strip()


def _picture(page: Any) -> ImagePart:
    """Return a picture with at most `_PICTURE_SIDE` pixels a side."""
    longest = max(*page.get_size(), 1.0)
    scale = min(_MAX_DPI / _POINTS_PER_INCH, _PICTURE_SIDE / longest)
    written = io.BytesIO()
    page.render(scale=scale, may_draw_forms=False).to_pil().save(written, "PNG", compress_level=1)
    return ImagePart(data=written.getvalue(), media_type="image/png")
