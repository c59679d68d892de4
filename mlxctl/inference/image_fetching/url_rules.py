"""Which URLs may be fetched. Pure.

SEC: only one spelling of each host is accepted, so that no other parser can read another host in it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal
from urllib.parse import quote, urljoin, urlsplit

MAX_URL_CHARS = 4096

_DEFAULT_PORTS = {"https": 443, "http": 80}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
# Other parsers read a name that ends like this as an IPv4 address: 127.1, 0x7f000001, 2130706433.
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_PATTERN = re.compile(
    rf"(?P<name>\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>\d+))?", re.ASCII
)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
# What urllib calls "safe": everything that may be in a path or query as it is.
_SAFE = "%/?:@!$&'()*+,;=~-._[]|"


class UrlRefused(ValueError):
    """A URL that may not be fetched; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUrl:
    """A URL that may be fetched. `target` is its path and query."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        """Scheme, host, and a port that is not the scheme's."""
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.authority_host}{port}"

    @property
    def authority_host(self) -> str:
        """The host as URLs and the header Host write it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def logged(self) -> str:
        """The URL without its query, which may hold secrets."""
        return self.origin + self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host of the allow-list.

    `name` is a host, `*.` and a domain for all hosts below it, or `*`. Without `port` only the scheme's port
    is allowed.
    """

    name: str
    port: int | None = None

    def matches(self, url: ImageUrl) -> bool:
        """Whether the host and the port of a URL are allowed."""
        if url.port != (self.port or _DEFAULT_PORTS[url.scheme]):
            return False
        return self.name in ("*", url.host) or (
            self.name.startswith("*.") and url.host.endswith(self.name[1:])
        )


_ANY_HOST = (HostPattern("*"),)


@dataclass(frozen=True, slots=True)
class UrlRules:
    """Allows URLs of the hosts that match one of `patterns`.

    They are https URLs, and with `allows_http` also http URLs.
    """

    patterns: tuple[HostPattern, ...] = _ANY_HOST
    allows_http: bool = False

    def check(self, url: str) -> ImageUrl:
        """Return the parts of a URL. Raises UrlRefused."""
        if len(url) > MAX_URL_CHARS:
            raise UrlRefused(f"the URL has {len(url)} characters; it may have {MAX_URL_CHARS}")
        if _FORBIDDEN.search(url):
            raise UrlRefused("the URL has spaces, control characters or backslashes")
        found = self._read(url)
        if not any(pattern.matches(found) for pattern in self.patterns):
            raise UrlRefused(f"the server does not fetch from {found.origin}")
        return found

    def redirected(self, before: ImageUrl, location: str) -> ImageUrl:
        """Return the URL that a redirect names. Raises UrlRefused."""
        try:
            joined = urljoin(before.origin + before.target, location)
        except ValueError:
            raise UrlRefused("the redirect names no URL") from None
        after = self.check(joined)
        if before.scheme == "https" and after.scheme == "http":
            raise UrlRefused("the redirect leaves https")
        return after

    def _read(self, url: str) -> ImageUrl:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UrlRefused("the URL cannot be read") from None
        if parts.scheme not in ("https", "http"):
            raise UrlRefused(
                f"{parts.scheme}: URLs are not fetched" if parts.scheme else "the URL has no scheme"
            )
        if parts.scheme == "http" and not self.allows_http:
            raise UrlRefused("http URLs are not fetched; use https")
        if "@" in parts.netloc:
            raise UrlRefused("the URL has a user name or password")
        host = _checked_host(parts.netloc)
        if port == 0:
            raise UrlRefused("the port of the URL is 0")
        target = quote(parts.path or "/", safe=_SAFE)
        if parts.query:
            target += "?" + quote(parts.query, safe=_SAFE)
        return ImageUrl(
            scheme="https" if parts.scheme == "https" else "http",
            host=host,
            port=port or _DEFAULT_PORTS[parts.scheme],
            target=target,
        )


def read_patterns(texts: Sequence[str]) -> tuple[HostPattern, ...]:
    """Return the hosts of an allow-list. Raises ValueError.

    An empty list allows all hosts.
    """
    return tuple(map(_pattern, texts)) or _ANY_HOST


def _pattern(text: str) -> HostPattern:
    found = _PATTERN.fullmatch(text.lower())
    if found is None:
        raise ValueError(
            f"{text!r} is not a host such as 'example.com', '*.example.com' or 'example.com:8443'"
        )
    return HostPattern(found["name"].strip("[]"), int(found["port"]) if found["port"] else None)


def _checked_host(authority: str) -> str:
    """Return the host of `host`, `host:port`, `[IPv6]` or `[IPv6]:port`. Raises UrlRefused."""
    if authority.startswith("["):
        host, end, rest = authority[1:].partition("]")
        if end and (not rest or rest.startswith(":")) and _is_address(host, version=6):
            return host.lower()
        raise UrlRefused("the URL has no valid IPv6 address")
    host = authority.partition(":")[0].lower()
    if not host.isascii():
        raise UrlRefused(f"the host {host[:100]!r} is not ASCII; write it with 'xn--'")
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise UrlRefused(f"{host[:100]!r} is not a host name")
    if _NUMBER.fullmatch(host) and not _is_address(host, version=4):
        raise UrlRefused(f"{host[:100]!r} is not an IPv4 address in its usual form")
    return host


def _is_address(text: str, *, version: int) -> bool:
    try:
        found = ip_address(text)
    except ValueError:
        return False
    # A zone id would choose the network interface.
    return found.version == version and "%" not in text
