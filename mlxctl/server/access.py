"""Who may use which route. Every route has a line here; the server does not start with one that has none."""

from typing import Literal

Access = Literal["open", "caller", "admin", "all_callers"]
"""What a route needs where there are keys.

`open` needs no key, and tells nothing of anybody. `caller` needs a key, and shows the server's models and
what belongs to this key. `admin` needs an admin key where there are some, else any key; it shows totals, or
what belongs to this key. `all_callers` shows or changes what belongs to others, too: it needs an admin key
where there are several keys.
"""

ACCESS: dict[str, Access] = {
    "/": "open",
    "/api/hello": "open",
    "/cache": "all_callers",
    "/cache/clear": "all_callers",
    "/cache/drop": "all_callers",
    "/cache/explain": "all_callers",
    "/cache/gc": "all_callers",
    "/cache/pin": "all_callers",
    "/cache/unpin": "all_callers",
    "/downloads": "admin",
    "/fit": "caller",
    "/health": "open",
    "/library": "caller",
    "/livez": "open",
    "/metrics": "admin",
    "/models/load": "admin",
    "/models/pin": "admin",
    "/models/unload": "admin",
    "/models/unpin": "admin",
    "/openapi.json": "caller",
    "/readyz": "open",
    "/requests": "admin",
    "/stats": "admin",
    "/v1/agents": "caller",
    "/v1/agents/{agent_id}": "caller",
    "/v1/agents/{agent_id}/generate": "caller",
    "/v1/agents/{agent_id}/messages": "caller",
    "/v1/agents/{agent_id}/reset": "caller",
    "/v1/audio/transcriptions": "caller",
    "/v1/audio/translations": "caller",
    "/v1/chat/completions": "caller",
    "/v1/completions": "caller",
    "/v1/embeddings": "caller",
    "/v1/messages": "caller",
    "/v1/messages/count_tokens": "caller",
    "/v1/models": "caller",
    "/v1/models/{name:path}": "caller",
    "/v1/responses": "caller",
    "/v1/responses/{response_id}": "caller",
    "/v1/responses/{response_id}/cancel": "caller",
    "/v1/responses/{response_id}/input_items": "caller",
}

ADMIN_ROUTES = frozenset(route for route, access in ACCESS.items() if access in ("admin", "all_callers"))
