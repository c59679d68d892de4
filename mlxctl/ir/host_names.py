"""Host names and addresses, alone and in URLs."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether a name, or an address without brackets, is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_http_url(url: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def without_credentials(url: str) -> str:
    """Return a URL for logs, without user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
