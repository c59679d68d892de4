"""Authenticate callers and enforce the access that routes need."""

from collections.abc import Mapping
from typing import Any

from falcon.asgi import Request, Response

from mlxctl.errors import AuthenticationFailed, PermissionDenied
from mlxctl.policy import KeyCheck
from mlxctl.server.route import Access


class Authentication:
    """Sets the caller's name, permissions and cache scope.

    `request.context.caller` is a name, never the key.
    """

    def __init__(self, keys: KeyCheck, access: Mapping[str, Access]) -> None:
        self._keys = keys
        self._access = access

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Authenticate, or raise AuthenticationFailed; on open routes the caller may be None."""
        context = request.context
        context.caller, context.may_administer, context.may_see_others, context.cache_scope = (
            None,
            False,
            False,
            b"",
        )
        try:
            caller = self._keys.identify(
                authorization=request.get_header("authorization"), x_api_key=request.get_header("x-api-key")
            )
        except AuthenticationFailed:
            if self._access.get(request.path) != "open":
                raise
        else:
            context.caller = caller.name or request.remote_addr
            context.may_administer = caller.may_administer
            context.may_see_others = self._keys.may_see_others(caller)
            context.cache_scope = caller.cache_scope

    async def process_resource(
        self,
        request: Request,
        response: Response,  # noqa: ARG002
        _: object,
        __: dict[str, Any],
    ) -> None:
        """Raise PermissionDenied if the route needs another key."""
        access = self._access[request.uri_template or ""]
        if access in ("admin", "all_callers") and not request.context.may_administer:
            raise PermissionDenied(f"{request.path} needs an admin key")
        if access == "all_callers" and not request.context.may_see_others:
            raise PermissionDenied(
                f"{request.path} covers all callers and this server has several API keys, so it needs an "
                "admin key; "
                "start the server with --admin-key"
            )
