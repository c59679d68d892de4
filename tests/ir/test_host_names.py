"""Which hosts are near, and what is a server's URL."""

import pytest

from mlxctl.ir.errors import UsageError
from mlxctl.ir.host_names import (
    is_http_url,
    is_local_network,
    is_loopback,
    server_root,
    url_host,
    without_credentials,
)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_is_local(host: str) -> None:
    assert is_loopback(host)
    assert is_local_network(host)


@pytest.mark.parametrize(
    "host",
    [
        "192.168.1.4",
        "10.0.0.1",
        "172.16.0.9",
        "fe80::1%en0",
        "fd00::2",
        "studio",
        "mac.local",
        "nas.home.arpa.",
        "100.64.0.7",
    ],
)
def test_hosts_of_a_private_network_are_local_and_no_loopback(host: str) -> None:
    assert is_local_network(host)
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "8.8.8.8",
        "8.8.8.8.",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "134744072",
        "0x08080808",
        "api.example.com",
        "local.example.com",
    ],
)
def test_hosts_of_the_internet_are_not_local(host: str) -> None:
    assert not is_local_network(host)


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://mac.local:8080/v1/", "http://mac.local:8080"),
        ("https://[::1]:8443/v1", "https://[::1]:8443"),
        ("https://example.com/openai/v1", "https://example.com/openai"),
    ],
)
def test_root_of_a_server_has_a_scheme_and_no_version(url: str, root: str) -> None:
    assert server_root(url) == root
    assert server_root(root) == root


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://host:0", "http://host:70000", "http://[::1"]
)
def test_what_is_no_server_is_refused_by_its_text(url: str) -> None:
    with pytest.raises(UsageError, match="is not a server URL"):
        server_root(url)
    assert not is_http_url(url)


def test_url_for_logs_has_no_password() -> None:
    assert (
        without_credentials("https://user:secret@example.com:444/v1?x=1") == "https://example.com:444/v1?x=1"
    )
    assert url_host("http://user@[::1]:1/") == "::1"
