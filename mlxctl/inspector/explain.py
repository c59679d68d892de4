"""Explanation of cached tokens, by a server or by the disk."""

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.directory import CacheDirectory
from mlxctl.inspector.rendering import disk_explanation, explanations
from mlxctl.inspector.request_file import read_request
from mlxctl.inspector.server import CacheServer


def explain_cache(
    cache: CacheServer | CacheDirectory, file: Path | None, *, last: int
) -> tuple[Any, RenderableType]:
    """Explain a request file, or the last requests of a server.

    Returns data for JSON and a renderable. Raises InvalidRequest.
    """
    request = read_request(file) if file is not None else None
    if isinstance(cache, CacheDirectory):
        if request is None:
            raise InvalidRequest(
                "only a server keeps its last requests; to explain the disk, name a FILE", param="file"
            )
        on_disk = cache.explain(request)
        return on_disk.as_dict(), disk_explanation(on_disk)
    found = cache.explain_last(last) if request is None else cache.explain(request.protocol, request.body)
    return found, explanations(found)
