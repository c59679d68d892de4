"""The web page of the server: static files without a build step, and the resource that serves them."""

from mlxctl.server.web.page import PageFileResource, RootResource, page_files

__all__ = ["PageFileResource", "RootResource", "page_files"]
