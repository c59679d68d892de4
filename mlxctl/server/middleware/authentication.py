"""Authenticate callers and enforce the access that routes need."""

from collections.abc import Mapping

from falcon.asgi import Request, Response

from mlxctl.ir.allowed_models import NO_MODEL
from mlxctl.ir.errors import AuthenticationFailed, InsufficientScope, PermissionDenied, PolicyUnavailable
from mlxctl.server.http.disconnect import call_at_end
from mlxctl.server.http.route import Route
from mlxctl.server.policy import Caller, PolicyService

UNAUTHENTICATED = Caller(name="", scopes=frozenset(), models=NO_MODEL)
"""A caller without a valid key, on open routes."""


class Authentication:
    """Sets the caller, and checks that it may use the route.

    `request.context.identity` is the caller, `request.context.owner` its name or address, never the key;
    `request.context.policy` limits the request later. `routes` are by path.
    """

    def __init__(self, policy: PolicyService, routes: Mapping[str, Route]) -> None:
        self._policy = policy
        self._routes = routes

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Authenticate the caller of a request.

        On open routes it may be UNAUTHENTICATED. Raises AuthenticationFailed, PolicyUnavailable.
        """
        context = request.context
        context.owner, context.identity, context.policy = "", UNAUTHENTICATED, self._policy
        try:
            caller = await self._policy.authenticate(
                authorization=request.get_header("authorization"), x_api_key=request.get_header("x-api-key")
            )
        except (AuthenticationFailed, PolicyUnavailable):
            route = self._routes.get(request.path)
            if route is None or route.access != "open":
                raise
        else:
            context.owner = caller.name or request.remote_addr
            context.identity = caller
            call_at_end(request.scope, self._policy.track(caller, context.record.revoke))

    async def process_resource(self, request: Request, *_: object) -> None:
        """Raise InsufficientScope or PermissionDenied if the route needs another key."""
        route, identity = self._routes[request.uri_template or ""], request.context.identity
        if route.access not in ("open", "caller") and route.access not in identity.scopes:
            raise InsufficientScope(route.access, request.path)
        if route.covers_all_callers and not identity.sees_others:
            raise PermissionDenied(
                f"{request.path} covers all callers and this server has several API keys, so it needs an "
                "admin key; start the server with --admin-key"
            )
