"""Ask the key check, except where a machine only wants to know whether somebody is there."""

from typing import Any

from falcon.asgi import Request, Response

from mlxctl.errors import AuthenticationFailed, PermissionDenied
from mlxctl.policy import KeyCheck
from mlxctl.server.admin_routes import ADMIN_ROUTES


class Authentication:
    """Leaves the caller's identity, a name for fairness and never the key, in `request.context.caller`."""

    def __init__(self, keys: KeyCheck, *, open_paths: frozenset[str]) -> None:
        self._keys = keys
        self._open_paths = open_paths

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Let the caller in, or raise AuthenticationFailed. On an open path a stranger is let in as None."""
        request.context.caller, request.context.may_administer = None, False
        try:
            caller = self._keys.identify(
                authorization=request.get_header("authorization"), x_api_key=request.get_header("x-api-key")
            )
        except AuthenticationFailed:
            if request.path not in self._open_paths:
                raise
        else:
            request.context.caller = caller.name or request.remote_addr
            request.context.may_administer = caller.may_administer

    async def process_resource(self, request: Request, response: Response, _: object, __: dict[str, Any]) -> None:  # noqa: ARG002
        """Raise PermissionDenied on a route that is for those who administer."""
        if request.uri_template in ADMIN_ROUTES and not request.context.may_administer:
            raise PermissionDenied(f"{request.path} administers this server, or shows what others asked: it needs an admin key")
