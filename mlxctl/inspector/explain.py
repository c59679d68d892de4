"""Why so much of a prompt is known and no more: by a server, or by what lies on disk; for programs and for
people.
"""

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.directory import CacheDirectory
from mlxctl.inspector.rendering import disk_explanation, explanations
from mlxctl.inspector.request_file import read_request
from mlxctl.inspector.server import CacheServer


def explained(
    cache: CacheServer | CacheDirectory, file: Path | None, *, last: int
) -> tuple[Any, RenderableType]:
    """Explain the request in a file, or the last ones of a server. Raises InvalidRequest."""
    request = read_request(file) if file is not None else None
    if isinstance(cache, CacheDirectory):
        if request is None:
            raise InvalidRequest(
                "only a server remembers its last requests; for what lies on disk name a FILE", param="file"
            )
        on_disk = cache.explain(request)
        return on_disk.as_dict(), disk_explanation(on_disk)
    found = cache.explain_last(last) if request is None else cache.explain(request.protocol, request.body)
    return found, explanations(found)
