"""Paths without a route: the error names the nearest one."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from falcon.asgi import Request, Response

from mlxctl.ir.errors import UnknownResource
from mlxctl.server.http.route import Route
from mlxctl.server.middleware.unused_bodies import discard_unread

_MAX_CHARS = 128
# What clients ask for at other servers, and what there is here.
_INSTEAD = {
    "/classify": "classification is not supported; POST /v1/rerank takes cross-encoders",
    "/v1/images/generations": "image generation is not supported; POST /v1/chat/completions takes images",
    "/v1/moderations": "moderation is not supported; guardrails (/admin/guardrails) refuse or redact texts",
    "/v1/messages/batches": "batches are not supported; send each request to POST /v1/messages",
    "/v1/batches": "batches are not supported; send each request to its route",
    "/v1/files": "file uploads are not supported; send texts and images in each request",
    "/api/create": "creating models is not supported; `mlxctl models pull` downloads them",
    "/api/delete": "deleting models is not supported; use `mlxctl models rm`",
    "/api/copy": "copying models is not supported; use `mlxctl models alias`",
}
# Similarities from 0 to 1: of a misspelled path, and of one that may be meant.
_MISSPELLED = 0.9
_SIMILAR = 0.8


class UnknownPaths:
    """Refuses requests whose path no route has."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._paths = sorted(
            {path for route in routes for path in route.paths if "{" not in path and path != "/"},
            key=len,
            reverse=True,
        )

    async def refuse(self, req: Request, resp: Response | None, **_: Any) -> None:  # noqa: ARG002
        """Raise UnknownResource, InvalidRequest, BodyTooSlow."""
        await discard_unread(req)
        if (reason := _INSTEAD.get(req.path)) is not None:
            raise UnknownResource(f"there is no route {req.path!r}: {reason}")
        near = self._nearest(req.path[-_MAX_CHARS:])
        hint = "" if near is None else f"did you mean {near!r}? "
        raise UnknownResource(
            f"there is no route {req.path[:_MAX_CHARS]!r}; {hint}GET /openapi.json lists the routes"
        )

    def _nearest(self, path: str) -> str | None:
        """Return the route that the caller may mean.

        Clients whose base URL has a prefix too many (`/v1/v1/...`) send a path that ends with a route.
        """
        ending = next((known for known in self._paths if path.endswith(known)), None)
        return self._similar(path, _MISSPELLED) or ending or self._similar(path, _SIMILAR)

    def _similar(self, path: str, cutoff: float) -> str | None:
        return next(iter(get_close_matches(path, self._paths, n=1, cutoff=cutoff)), None)
