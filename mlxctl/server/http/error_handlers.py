"""Error responses in the shape of the route's protocol.

Status codes are set only here.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import falcon
from falcon.asgi import App, Request, Response

from mlxctl.inference.request_record import RequestRecord
from mlxctl.ir.errors import (
    EngineError,
    InvalidRequest,
    MethodNotAllowed,
    MlxctlError,
    SequenceFailed,
    StoreError,
)
from mlxctl.protocols import ErrorBody, error_code

ErrorRenderer = Callable[..., ErrorBody]

_log = logging.getLogger(__name__)


class ErrorHandlers:
    """Renders errors in the protocol of the route.

    `by_route` has a renderer for each route template. A route without one uses `by_header` if the request has
    that header, else `default`. An unknown path uses the longest match of `by_prefix`, if any, before these.
    """

    def __init__(
        self,
        by_route: Mapping[str, ErrorRenderer],
        *,
        default: ErrorRenderer,
        by_prefix: Mapping[str, ErrorRenderer],
        by_header: Mapping[str, ErrorRenderer],
    ) -> None:
        self._by_route = by_route
        # Errors before routing have no template.
        prefixes = {route.partition("{")[0]: render for route, render in by_route.items() if "{" in route}
        self._by_prefix = sorted(
            {**prefixes, **by_prefix}.items(), key=lambda entry: len(entry[0]), reverse=True
        )
        self._default = default
        self._by_header = by_header

    def install(self, app: App[Request, Response]) -> None:
        """Register the handlers at `app`."""
        app.add_error_handler(Exception, self._on_unexpected_error)
        app.add_error_handler(falcon.HTTPError, self._on_http_error)
        app.add_error_handler(MlxctlError, self._on_error)

    async def _on_error(
        self, request: Request, response: Response, error: MlxctlError, _: Mapping[str, Any]
    ) -> None:
        if isinstance(error, EngineError | StoreError):
            _log.error("%s %s: %s", request.method, request.path, error)
        self._answer(request, response, error)

    async def _on_http_error(
        self, request: Request, response: Response, error: falcon.HTTPError, _: Mapping[str, Any]
    ) -> None:
        self._answer(request, response, _to_mlxctl_error(request, error))

    async def _on_unexpected_error(
        self, request: Request, response: Response, error: Exception, _: Mapping[str, Any]
    ) -> None:
        _log.error("%s %s failed unexpectedly", request.method, request.path, exc_info=error)
        self._answer(request, response, SequenceFailed("the server failed unexpectedly; its log says why"))

    def _answer(self, request: Request, response: Response, error: MlxctlError) -> None:
        if (record := getattr(request.context, "record", None)) is not None:
            record_error(error, record)
        request_id = getattr(request.context, "request_id", None)
        answer = self._renderer(request)(error, request_id=request_id)
        response.status = answer.status
        response.content_type = answer.media_type
        response.data = answer.body
        response.set_headers(answer.headers)

    def _renderer(self, request: Request) -> ErrorRenderer:
        route = request.uri_template or request.path
        if route in self._by_route:
            return self._by_route[route]
        if request.uri_template is None:
            for prefix, render in self._by_prefix:
                if route.startswith(prefix):
                    return render
        return next(
            (shape for header, shape in self._by_header.items() if request.get_header(header)), self._default
        )


def record_error(error: MlxctlError, record: RequestRecord) -> None:
    """Record the code of the error that ends a request."""
    record.error = error_code(error)


def _to_mlxctl_error(request: Request, error: falcon.HTTPError) -> MlxctlError:
    """Return the MlxctlError for an error of Falcon."""
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        return MethodNotAllowed(request.method, tuple(dict(error.headers or ())["Allow"].split(", ")))
    return InvalidRequest(error.description or error.title or "the request cannot be understood")
