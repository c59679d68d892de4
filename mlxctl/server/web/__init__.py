"""The server's web page: static files and their resource.

No build step.
"""

from mlxctl.server.web.page import HTML_NAME, PageFileResource, RootResource, page_files

__all__ = ["HTML_NAME", "PageFileResource", "RootResource", "page_files"]
