"""How long requests of a route may take."""

import re

from mlxctl.state.settings import Endpoint, ServerSettings

_VERSION = re.compile(r"/(?:(?:api/)?v\d+/)?")
# The first part of a route's path after its version.
_ENDPOINTS: dict[str, Endpoint] = {
    "chat": "chat",
    "completion": "completions",
    "infill": "completions",
    "responses": "responses",
    "messages": "messages",
    "agents": "agents",
    "embed": "embeddings",
    "rerank": "embeddings",
    "audio/speech": "speech",
    "audio/": "transcriptions",
    "models/": "admin",
    "api/": "ollama",
}


def timeout_seconds(path: str, settings: ServerSettings) -> float:
    """Return the maximum duration of requests of a route, by its path."""
    path = _VERSION.sub("", path, count=1)
    endpoint = next((name for prefix, name in _ENDPOINTS.items() if path.startswith(prefix)), None)
    default = settings.request_timeout_seconds
    return default if endpoint is None else settings.timeouts.get(endpoint, default)
