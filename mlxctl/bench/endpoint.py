"""A parsed server URL that builds HTTP requests as bytes."""

import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mlxctl.ir.host_names import server_root
from mlxctl.state.certificates import client_context


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEndpoint:
    """The chat completions of one server.

    `base_url` ends in /v1; `api_key` is never shown.
    """

    base_url: str
    host: str
    port: int
    path: str
    api_key: str | None = None

    @classmethod
    def of(cls, url: str, *, api_key: str | None = None) -> "ChatEndpoint":
        """Parse `http(s)://host[:port][/prefix][/v1]`; `http://` is optional.

        Raises SettingsError for an invalid URL.
        """
        parts = urlsplit(server_root(url))
        assert parts.hostname is not None, "checked above"
        port = parts.port or (443 if parts.scheme == "https" else 80)
        prefix = parts.path
        return cls(
            base_url=f"{parts.scheme}://{parts.netloc}{prefix}/v1",
            host=parts.hostname,
            port=port,
            path=f"{prefix}/v1/chat/completions",
            api_key=api_key,
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for plain HTTP. Raises SettingsError."""
        context = client_context(self.base_url)
        return context if isinstance(context, ssl.SSLContext) else None

    def message(self, body: dict[str, Any]) -> bytes:
        """Return the complete HTTP request."""
        payload = msgspec.json.encode(body)
        host = f"[{self.host}]" if ":" in self.host else self.host
        key = f"Authorization: Bearer {self.api_key}\r\n" if self.api_key else ""
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {host}:{self.port}\r\nContent-Type: application/json\r\n"
            f"Accept: text/event-stream\r\n{key}Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + payload
