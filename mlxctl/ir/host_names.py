"""Host names and addresses, alone and in URLs."""

import ipaddress
from urllib.parse import urlsplit

from mlxctl.ir.errors import UsageError

# RFC 6761, 6762, 8375, 9476.
_LOCAL_ZONES = (".localhost", ".local", ".home.arpa", ".internal")


def is_loopback(host: str) -> bool:
    """Return whether a name, or an address without brackets, is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local_network(host: str) -> bool:
    """Return whether a host is loopback or on the local network.

    Addresses that the internet does not route, names without a dot, and names of local zones are.
    """
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        # SEC: resolvers take a single number for an IPv4 address.
        is_number = name.isdigit() or name.startswith("0x")
        return ("." not in name and not is_number) or name.endswith(_LOCAL_ZONES)
    return not address.is_global


def url_host(url: str) -> str:
    """Return the host of an http URL, without brackets."""
    return urlsplit(url).hostname or ""


def is_http_url(url: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def server_root(url: str) -> str:
    """Return the URL of a server without `/v1`.

    `http://` may be left out. Raises UsageError for what is no URL of a server.
    """
    whole = url if "://" in url else f"http://{url}"
    if not is_http_url(whole):
        raise UsageError(f"{url!r} is not a server URL; write http://HOST:PORT")
    return whole.rstrip("/").removesuffix("/v1").rstrip("/")


def without_credentials(url: str) -> str:
    """Return a URL for logs, without user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
