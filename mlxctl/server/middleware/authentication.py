"""Ask the key check, except where a machine only wants to know whether somebody is there."""

from falcon.asgi import Request, Response

from mlxctl.errors import AuthenticationFailed
from mlxctl.policy import KeyCheck


class Authentication:
    """Leaves the caller's identity, a name for fairness and never the key, in `request.context.caller`."""

    def __init__(self, keys: KeyCheck, *, open_paths: frozenset[str]) -> None:
        self._keys = keys
        self._open_paths = open_paths

    async def process_request(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Let the caller in, or raise AuthenticationFailed. On an open path a stranger is let in as None."""
        request.context.caller = None
        try:
            name = self._keys.identify(authorization=request.get_header("authorization"), x_api_key=request.get_header("x-api-key"))
        except AuthenticationFailed:
            if request.path not in self._open_paths:
                raise
        else:
            request.context.caller = name or request.remote_addr
