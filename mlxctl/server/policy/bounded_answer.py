"""HTTP answers of other servers, up to a size."""

from typing import Any

import httpx


async def fetch_bounded(
    client: httpx.AsyncClient, method: str, url: str, *, max_bytes: int, **options: Any
) -> bytes:
    """Return the body of an answer.

    Redirects are not followed and count as errors. Raises httpx.HTTPError, and ValueError for more than
    `max_bytes`.
    """
    body = bytearray()
    async with client.stream(method, url, **options) as response:
        response.raise_for_status()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > max_bytes:
                raise ValueError(f"the answer has more than {max_bytes} bytes")
    return bytes(body)
