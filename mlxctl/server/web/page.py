"""Serves the web page's files, read once at start.

The page itself shows nothing about callers: it asks the JSON routes, with a key where one is needed.
"""

import base64
import hashlib
import mimetypes
import re
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import NamedTuple

import falcon
from falcon.asgi import Request, Response

from mlxctl.server.http.answer import answer
from mlxctl.server.observe.health import GreetingResource

HTML_NAME = "index.html"
"""The name of the page's HTML among its files."""

# An application may be mounted at several places.
_MAX_ROOTS = 8
_STATIC = Path(__file__).parent / "static"
_VENDORED = _STATIC / "vendored"
_SCRIPT_NAME = "page.js"
_STYLE = "".join((_STATIC / f"{name}.css").read_text() for name in ("base", "layout", "chat", "content"))
_LOADER = (_STATIC / "load.js").read_text()
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def _digest_source(text: str) -> str:
    """Return the hash source of an inline text.

    For a content security policy.
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# SEC: no script, style or request of another origin, no frame around the page. The one inline style and the
# one inline script are allowed by their digests.
_POLICY = (
    f"default-src 'none'; script-src 'self' {_digest_source(_LOADER)}; style-src {_digest_source(_STYLE)}; "
    "img-src 'self' data: blob:; media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
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


@lru_cache(maxsize=_MAX_ROOTS)
def page_files(root_path: str = "") -> dict[str, PageFile]:
    """Return the files of the page by name.

    The HTML, one script, and the vendored ones that it loads when an answer has code or a formula. The routes
    are below `root_path`.
    """
    html = (_STATIC / HTML_NAME).read_text()
    # PERF: the first paint needs no second request. The script is requested after it: while it runs, a
    # browser paints nothing.
    html = html.replace("<!-- root -->", escape(root_path))
    html = html.replace("<!-- style -->", f"<style>{_STYLE}</style>")
    html = html.replace("<!-- loader -->", f"<script>{_LOADER}</script>")
    return {HTML_NAME: _page_file(HTML_NAME, html), **_scripts()}


@lru_cache(maxsize=1)
def _scripts() -> dict[str, PageFile]:
    highlight, temml = ((_VENDORED / name).read_text() for name in ("highlight.min.js", "temml.min.js"))
    texts = {
        _SCRIPT_NAME: _with_imports("main.js", set()),
        "highlight-worker.js": f"{highlight}\n{(_STATIC / 'highlight_worker.js').read_text()}",
        "temml.min.js": f"{temml}\nexport default temml;\n",
    }
    return {name: _page_file(name, text) for name, text in texts.items()}


def _with_imports(name: str, included: set[str]) -> str:
    """Return a module in one text with the modules that it imports.

    `included` are left out, and this one is added to it. Top-level names of the modules must differ: browsers
    reject a script that declares one twice.
    """
    # PERF: a request for each module takes longer than all of them together.
    included.add(name)
    text = (_STATIC / name).read_text()
    imported = [_with_imports(each, included) for each in _IMPORT.findall(text) if each not in included]
    return "".join((*imported, _EXPORT.sub("", _IMPORT.sub("", text))))


class PageFileResource:
    """One file of the page: the HTML, or a script."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def on_get(self, request: Request, response: Response) -> None:
        """Send the file, or 304 when the browser has it."""
        _send(self._name, request, response)


class RootResource(GreetingResource):
    """GET /: the page for browsers, name and version for others."""

    async def on_get(self, request: Request, response: Response) -> None:
        """Send HTML only to a client that accepts it by name."""
        response.append_header("Vary", "Accept")
        if "text/html" in (request.accept or ""):
            _send(HTML_NAME, request, response)
            return
        await super().on_get(request, response)


def _page_file(name: str, text: str) -> PageFile:
    content = text.encode()
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return PageFile(content, f"{media_type}; charset=utf-8", hashlib.sha256(content).hexdigest()[:32])


def _send(name: str, request: Request, response: Response) -> None:
    file = page_files(request.root_path)[name]
    response.set_headers(_HEADERS)
    response.etag = file.etag
    if any(str(tag) == file.etag for tag in request.if_none_match or ()):
        response.status = falcon.HTTP_304
        return
    answer(response, file.content, file.media_type)
