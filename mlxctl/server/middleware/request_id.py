"""Adds an id to every answer, under the SDKs' two names."""

import re
import secrets

from falcon.asgi import Request, Response

# SEC: the client's id is echoed, so only safe characters and a bounded length are accepted.
_HARMLESS = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestId:
    """Takes over the client's `x-request-id` or makes one up."""

    async def process_request(self, request: Request, response: Response) -> None:
        """Set the request's id; resources pass it on to the engine."""
        offered = request.get_header("x-request-id") or ""
        request_id = offered if _HARMLESS.fullmatch(offered) else f"req_{secrets.token_hex(12)}"
        request.context.request_id = request_id
        response.set_headers({"x-request-id": request_id, "request-id": request_id})
