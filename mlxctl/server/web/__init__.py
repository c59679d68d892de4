"""The server's web page: static files and their resource.

No build step.
"""

from mlxctl.server.web.page import PageFileResource, RootResource, page_files

__all__ = ["PageFileResource", "RootResource", "page_files"]
