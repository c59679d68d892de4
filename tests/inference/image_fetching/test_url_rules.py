"""URLs that the server may fetch."""

import pytest

from mlxctl.inference.image_fetching.url_rules import (
    HostPattern,
    UrlRefused,
    UrlRules,
    read_patterns,
)

REFUSED = {
    "another scheme": ["file:///etc/passwd", "ftp://a.example/x", "gopher://a.example", "//a.example/x",
                       "a.example/x", "javascript:1", "data:image/png,x", "unix:///run/x", "https+unix://a.example"],
    "http": ["http://a.example/x", "HTTP://a.example/x"],
    "credentials": ["https://user@a.example/", "https://user:word@a.example/", "https://a.example@b.example/",
                    "https://:@a.example/", "https://a.example:443@b.example/", "https://@a.example/"],
    "another port": ["https://a.example:22/", "https://a.example:80/", "https://a.example:8443/"],
    "an invalid port": ["https://a.example:0/", "https://a.example:65536/", "https://a.example:-1/",
                        "https://a.example:4 43/", "https://a.example:x/", "https://a.example:٤٤٣/"],
    "no host": ["https:///x", "https://", "https:a.example", "https:/a.example/", "https://:443/",
                "https://?x", "https://#x"],
    "numbers as IPv4": ["https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/",
                        "https://0x7f.1/", "https://1.2.3.4.5/", "https://a.127/", "https://0/", "https://127.0.0.01/",
                        "https://0x/"],
    "IPv6": ["https://[::1/", "https://::1/", "https://[::1]x/", "https://[::1%25eth0]/", "https://[fe80::1%eth0]/",
             "https://[a.example]/", "https://[1.2.3.4]/", "https://[]/", "https://[v1.x]/", "https://x[::1]/"],
    "dots": ["https://a.example./", "https://localhost./", "https://.a.example/", "https://a..example/", "https://./"],
    "other alphabets": ["https://ä.example/", "https://a。example/", "https://１２７.0.0.1/", "https://ⓐ.example/",
                        "https://a.exam\u00adple/", "https://a\u200b.example/", "https://ａ.example/"],
    "characters": ["https://a.example\\@b.example/", "https:\\\\a.example/", "https://a.example/ x", " https://a.example/",
                   "https://a.ex\tample/", "https://a.example/\r\nHost: b", "https://a.example\n", "https://a.example/\x00",
                   "https://a%2eexample/", "https://a_b!.example/", "https://-a.example/", "https://a.example;b/",
                   "https://a.example,b.example/", "https://*/", "https://a.example\x7f/"],
    "length": ["https://a.example/" + "x" * 5000, "https://" + "a" * 64 + ".example/",
               "https://" + "a." * 130 + "b/"],
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_urls_are_refused(kind: str) -> None:
    for url in REFUSED[kind]:
        with pytest.raises(UrlRefused):
            raise AssertionError(UrlRules().check(url))


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://a.example", "https://a.example", "/"),
        ("HTTPS://A.Example:443/X?y=1#z", "https://a.example", "/X?y=1"),
        ("https://a.example:/x", "https://a.example", "/x"),
        ("https://a.example?u=https://b.example/@", "https://a.example", "/?u=https://b.example/@"),
        ("https://a.example#@b.example/", "https://a.example", "/"),
        ("https://a.example/@b.example/", "https://a.example", "/@b.example/"),
        ("https://xn--4ca.example/ä%20b", "https://xn--4ca.example", "/%C3%A4%20b"),
        ("https://8.8.8.8/x", "https://8.8.8.8", "/x"),
        ("https://[2606:4700::1111]/x", "https://[2606:4700::1111]", "/x"),
    ],
)
def test_parts_of_an_allowed_url(url: str, origin: str, target: str) -> None:
    found = UrlRules().check(url)
    assert (found.origin, found.target) == (origin, target)


def test_only_hosts_of_the_list_are_allowed() -> None:
    rules = UrlRules(read_patterns(["a.example", "*.b.example", "c.example:8443"]), allows_http=True)
    for url in ("https://a.example/", "http://A.example/", "https://x.b.example/", "https://c.example:8443/"):
        rules.check(url)
    for url in (
        "https://x.a.example/",
        "https://b.example/",
        "https://xb.example/",
        "https://a.example.evil.example/",
        "https://a.example:80/",
        "https://c.example/",
        "https://8.8.8.8/",
    ):
        with pytest.raises(UrlRefused, match="does not fetch from"):
            rules.check(url)


def test_star_is_every_host() -> None:
    assert read_patterns(["*"]) == read_patterns([]) == (HostPattern("*"),)


@pytest.mark.parametrize(
    "text", ["", "https://a.example", "a.example/x", "a*.example", "**.example", "ä.example"]
)
def test_pattern_that_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        read_patterns([text])


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "http://a.example/",
        "//user@a.example/",
        "https://127.1/",
        "https://a.example:22/",
        "https://[x",
    ],
)
def test_redirect_is_checked_like_a_url(location: str) -> None:
    rules = UrlRules(allows_http=True)
    with pytest.raises(UrlRefused):
        rules.redirected(rules.check("https://a.example/x"), location)


def test_relative_redirect_stays_on_its_host() -> None:
    rules = UrlRules()
    assert rules.redirected(rules.check("https://a.example/x/y?z"), "../w").logged == "https://a.example/w"


def test_logged_url_has_no_query() -> None:
    assert UrlRules().check("https://a.example/x?token=secret").logged == "https://a.example/x"
