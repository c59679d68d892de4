"""Routes of the web page's files."""

from mlxctl.server.http.route import Route
from mlxctl.server.web import HTML_NAME, PageFileResource, page_files


def _page_file(path: str, name: str) -> Route:
    # A part of the page, not of the API: it is not described.
    return Route(path=path, resource=lambda _: PageFileResource(name), access="open", operations=())


ROUTES = (
    _page_file("/ui", HTML_NAME),
    *(_page_file(f"/ui/{name}", name) for name in page_files()),
)
"""The files of the web page, which is also at `/`. `server.status_page` turns them off."""
