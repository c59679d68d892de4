"""A server's address, and HTTP clients that reach it."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from mlxctl.ir.errors import CapacityError, ServerUnreachable, UsageError
from mlxctl.ir.host_names import server_root
from mlxctl.state.certificates import client_context
from mlxctl.terminal_text import escape_line

_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Root URL of a server, and the API key for it.

    `root` has no `/v1`. The key is never shown. Proxies of the environment are for the
    internet, not for the operator's own server.
    """

    root: str
    api_key: str | None = None

    @classmethod
    def of(cls, url: str, api_key: str | None = None) -> "ServerAddress":
        """Parse `http(s)://host[:port][/prefix][/v1]`; `http://` is optional.

        Raises UsageError.
        """
        root = server_root(url)
        try:
            httpx.URL(root)
        except httpx.InvalidURL as error:
            raise UsageError(f"{url!r} is no URL: {error}") from None
        return cls(root, api_key)

    def client(self, *, seconds: float) -> httpx.Client:
        """Return a client.

        It waits `seconds` for each part of an answer. Raises SettingsError.
        """
        return httpx.Client(
            headers=self._headers,
            timeout=timeouts(seconds),
            trust_env=False,
            verify=client_context(self.root),
        )

    def async_client(self, *, seconds: float, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
        """Return a client without a limit of connections. Raises SettingsError.

        `headers` replace that of the key.
        """
        return httpx.AsyncClient(
            headers=self._headers if headers is None else headers,
            timeout=timeouts(seconds),
            trust_env=False,
            verify=client_context(self.root),
            limits=httpx.Limits(max_connections=None),
        )

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def too_slow(url: str, seconds: float) -> CapacityError:
    """Return the error for an answer that does not come in time."""
    return CapacityError(f"the server at {url} did not answer within {seconds:g} s; it may be busy")


def unreachable(url: str, error: httpx.HTTPError | TimeoutError) -> ServerUnreachable:
    """Return the error for a connection that failed, in one line."""
    if isinstance(error, TimeoutError):
        reason = "its answer takes too long"
    elif isinstance(error, httpx.ConnectTimeout):
        reason = f"it does not react within {_CONNECT_SECONDS:g} s"
    elif isinstance(error, httpx.ReadTimeout):
        reason = "it accepts connections and sends nothing"
    elif isinstance(error, httpx.ConnectError):
        is_refused = "CERTIFICATE" not in str(error)
        reason = "the connection is refused, or there is no such host" if is_refused else str(error)
    else:
        detail = escape_line(str(error)).rstrip(".") or type(error).__name__
        reason = f"the connection failed ({detail})"
    return ServerUnreachable(
        url,
        reason,
        is_other=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
        was_dropped=isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError),
    )


def timeouts(seconds: float) -> httpx.Timeout:
    """Return the limits of connecting, and of each part of an answer."""
    return httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
