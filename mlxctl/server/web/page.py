"""Serves the web page's files, read once at start.

The page itself shows nothing about callers: it asks the JSON routes, with a key where one is needed.
"""

import base64
import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

import falcon
from falcon.asgi import Request, Response

from mlxctl.server.health import GreetingResource

HTML_NAME = "index.html"
"""The name of the page's HTML among its files."""

_STATIC = Path(__file__).parent / "static"
_STYLE = (_STATIC / "app.css").read_text()
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# SEC: no script, style or request of another origin, no inline code, no frame around the page. The one inline
# style is allowed by its digest.
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'sha256-{_STYLE_DIGEST}'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # A newer server brings newer files under the same names.
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """One file of the page."""

    content: bytes
    media_type: str
    etag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Return the files of the page by name.

    The style sheet is part of the HTML.
    """
    scripts = sorted(_STATIC.glob("*.js"))
    # PERF: the first paint needs no second request, and the scripts are requested together.
    preloads = "".join(f'<link rel="modulepreload" href="/ui/{path.name}">\n  ' for path in scripts)
    html = (_STATIC / HTML_NAME).read_text()
    html = html.replace("<!-- style -->", f"<style>{_STYLE}</style>").replace("<!-- scripts -->", preloads)
    files = {path.name: path.read_bytes() for path in scripts} | {HTML_NAME: html.encode()}
    return {name: _page_file(name, content) for name, content in files.items()}


class PageFileResource:
    """One file of the page: the HTML, or a script."""

    def __init__(self, name: str) -> None:
        self._file = page_files()[name]

    async def on_get(self, request: Request, response: Response) -> None:
        """Send the file, or 304 when the browser has it."""
        _send(self._file, request, response)


class RootResource(GreetingResource):
    """GET /: the page for browsers, name and version for others."""

    async def on_get(self, request: Request, response: Response) -> None:
        """Send HTML only to a client that accepts it by name."""
        response.append_header("Vary", "Accept")
        if "text/html" in (request.accept or ""):
            _send(page_files()[HTML_NAME], request, response)
            return
        await super().on_get(request, response)

    on_head = on_get


def _page_file(name: str, content: bytes) -> PageFile:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return PageFile(content, f"{media_type}; charset=utf-8", hashlib.sha256(content).hexdigest()[:32])


def _send(file: PageFile, request: Request, response: Response) -> None:
    response.set_headers(_HEADERS)
    response.etag = file.etag
    if any(str(tag) == file.etag for tag in request.if_none_match or ()):
        response.status = falcon.HTTP_304
        return
    response.data = file.content
    response.content_type = file.media_type
