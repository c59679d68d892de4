"""Settings of other servers, and of what is sent to them."""

from dataclasses import dataclass
from typing import Literal

from mlxctl.state.settings.bounds import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """Another server whose models are offered at this address."""

    name: str
    """Name of the server in logs, metrics and `[[routes]]`."""

    url: str
    """Address, with or without `/v1`. Redirects are not followed."""

    protocol: Literal["openai", "anthropic"] = "openai"
    """API to speak: Chat Completions or Messages. Another mlxctl has both."""

    api_key_env: str | None = None
    """Environment variable with the API key."""

    models: tuple[str, ...] = ()
    """Models to offer, as globs. Exact names need no model list of the server. Default: all that it lists."""

    priority: int = bounded(0, least=0, most=1000)
    """Servers with a lower number get the requests for a model that several have."""

    cloud: bool = False
    """Treat a server on the local network as cloud. Other addresses always are."""

    timeout_seconds: float = bounded(300.0, least=0.1)
    """Longest silence of the server, before an answer and within one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """A rule that sends requests elsewhere.

    All its conditions must hold; the first such rule counts.
    """

    to: str
    """Name of a remote, or `local`."""

    model: str = "*"
    """Glob of the requested model."""

    when: Literal["always", "no_memory", "failure"] = "always"
    """`no_memory`: model or prompt do not fit here. `failure`: the model cannot answer where it is."""

    min_prompt_bytes: int | None = bounded(None, least=1)
    """Only prompts whose texts and tool definitions have at least this size in UTF-8."""

    use: str | None = None
    """Model to ask there. Default: the requested one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings:
    """What may leave this machine."""

    cloud: bool = False
    """Send requests to cloud servers: remotes beyond the local network, and those marked as `cloud`."""
