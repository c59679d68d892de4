"""Fetching images from real servers, with an own resolver."""

import asyncio
import logging
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mlxctl.inference.call_context import CallContext, operator_call
from mlxctl.inference.image_fetching import ImageFetcher
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest, ImagePart, Message, RemoteImagePart, ToolResultPart
from mlxctl.ir.errors import InvalidRequest, QueueFull, SettingsError
from mlxctl.state.settings import VisionSettings
from tests.calls import call_of_operator
from tests.image_server import RED, ImageServer, image_server

UNREACHABLE = "the host cannot be reached, or its address is not a public one"


class Names:
    """A resolver.

    `answers` has the addresses of each name, for one look-up after the other.
    """

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(found) for name, found in answers.items()}

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the next addresses of a host."""
        self.asked.append(host)
        if host not in self._answers:
            raise OSError("Name or service not known")
        found = self._answers[host]
        return found.pop(0) if len(found) > 1 else found[0]


LOCAL = [["127.0.0.1"]]


@pytest.fixture(scope="module")
def images() -> Iterator[ImageServer]:
    with image_server() as server:
        yield server


@pytest.fixture(autouse=True)
def forget_requests(images: ImageServer) -> None:
    images.requests.clear()


def fetcher(names: Names, *ports: int, tls: ssl.SSLContext | None = None, **settings: object) -> ImageFetcher:
    """Return a fetcher that takes 127.0.0.1 for a public address."""
    defaults: dict[str, object] = {
        "fetch_urls": True,
        "fetch_http": True,
        "fetch_hosts": tuple(f"*:{port}" for port in ports),
        "fetch_networks": ("127.0.0.1/32",),
    }
    return ImageFetcher(
        VisionSettings(**(defaults | settings)),  # type: ignore[arg-type]
        max_request_bytes=1 << 20,
        resolve=names.resolve,
        tls=tls,
    )


def request(*urls: str) -> PackedRequest:
    parts = tuple(RemoteImagePart(url=url, param=f"image[{n}]") for n, url in enumerate(urls))
    return PackedRequest.of(GenerationRequest(model="m", messages=(Message(role="user", parts=parts),)))


def fetch(names: Names, *urls: str, call: CallContext | None = None, **settings: object) -> list[ImagePart]:
    """Return the images of URLs."""
    ports = {urlsplit(url).port or 80 for url in urls}
    fetched = asyncio.run(
        fetcher(names, *ports, **settings).fetch(request(*urls), call or call_of_operator())
    )
    (message,) = fetched.unpack().messages
    return [part for part in message.parts if isinstance(part, ImagePart)]


def problem(names: Names, url: str, **settings: object) -> str:
    """Return why an image is not fetched."""
    with pytest.raises(InvalidRequest) as caught:
        fetch(names, url, **settings)
    assert (caught.value.param, caught.value.code) == ("image[0]", "invalid_image_url")
    return str(caught.value)


def test_image_is_fetched_and_its_type_is_read_from_its_bytes(images: ImageServer) -> None:
    (image,) = fetch(Names(a_example=LOCAL), f"http://a.example:{images.port}/red")
    assert image == ImagePart(data=RED, media_type="image/png")
    ((path, headers),) = images.requests
    assert path == "/red"
    assert headers["Host"] == f"a.example:{images.port}"
    assert set(headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding"}


def test_same_url_is_fetched_once_and_results_of_tools_get_theirs(images: ImageServer) -> None:
    url = f"http://a.example:{images.port}/red"
    part = RemoteImagePart(url=url)
    result = Message(role="tool", parts=(ToolResultPart(call_id="c", content=(part,)),))
    packed = PackedRequest.of(
        GenerationRequest(model="m", messages=(Message(role="user", parts=(part, part)), result))
    )
    fetched = asyncio.run(
        fetcher(Names(a_example=LOCAL), images.port).fetch(packed, call_of_operator())
    ).unpack()
    assert [message.num_images for message in fetched.messages] == [2, 1]
    assert len(images.requests) == 1


def test_nothing_is_fetched_unless_the_setting_allows_it(images: ImageServer) -> None:
    names = Names(a_example=LOCAL)
    said = problem(names, f"http://a.example:{images.port}/red", fetch_urls=False)
    assert "--fetch-images (setting vision.fetch_urls)" in said
    assert (names.asked, images.requests) == ([], [])


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.2"], ["127.0.0.1", "127.0.0.2"], ["10.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], [], ["x"]],
)
def test_host_with_a_forbidden_address_is_refused(images: ImageServer, addresses: list[str]) -> None:
    said = problem(Names(a_example=[addresses]), f"http://a.example:{images.port}/red")
    assert said.endswith(UNREACHABLE)
    assert images.requests == []


def test_unknown_name_a_closed_port_and_a_private_address_look_alike(images: ImageServer) -> None:
    names = Names(closed_example=LOCAL, private_example=[["10.0.0.1"]])
    said = {
        problem(names, f"http://{host}:1/red").partition(f"http://{host}:1")[2]
        for host in ("unknown.example", "closed.example", "private.example")
    }
    assert said == {f": {UNREACHABLE}"}


def test_checked_address_is_the_one_that_is_connected_to(images: ImageServer) -> None:
    with image_server("127.0.0.2") as inside:
        names = Names(a_example=[["127.0.0.1"], ["127.0.0.2"]])
        url = f"http://a.example:{images.port}/red"
        assert len(fetch(names, url)) == 1
        assert names.asked == ["a.example"]
        # The name has been bound to another address since.
        assert problem(names, url).endswith(UNREACHABLE)
        assert problem(names, f"http://a.example:{inside.port}/red").endswith(UNREACHABLE)
    assert inside.requests == []


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "file: URLs are not fetched"),
        ("http://127.0.0.2:{port}/red", UNREACHABLE),
        ("http://private.example:{port}/red", UNREACHABLE),
        ("http://2130706433:{port}/red", "is not an IPv4 address"),
        ("http://a.example:22/", "the server does not fetch from http://a.example:22"),
        ("http://user:word@a.example:{port}/red", "has a user name or password"),
        ("/loop", "there are more than 3 redirects"),
    ],
)
def test_every_redirect_is_checked(images: ImageServer, location: str, reason: str) -> None:
    names = Names(a_example=LOCAL, private_example=[["127.0.0.2"]], **{"127_0_0_2": [["127.0.0.2"]]})
    to = location.format(port=images.port)
    assert reason in problem(names, f"http://a.example:{images.port}/redirect?to={to}")
    assert "/red" not in [path for path, _ in images.requests]
    assert len(images.requests) <= 4


def test_redirects_are_followed_without_cookies(images: ImageServer) -> None:
    names = Names(a_example=LOCAL, b_example=LOCAL)
    to = f"http://b.example:{images.port}/redirect?to=/redirect%3Fto=/red"
    assert len(fetch(names, f"http://a.example:{images.port}/redirect?to={to}")) == 1
    assert names.asked == ["a.example", "b.example", "b.example", "b.example"]
    assert not [headers for _, headers in images.requests if "Cookie" in headers or "Referer" in headers]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("page", "it is not an image of a known format"),
        ("endless", "it has more than 2048 bytes"),
        ("padded?bytes=2049", "it has more than 2048 bytes"),
        ("compressed", "the answer is compressed"),
        ("interim", "the answer breaks off or is malformed"),
        ("status?code=404", "the answer has status 404"),
        ("status?code=206", "the answer has status 206"),
        ("slow", "it takes longer than 0.5 seconds"),
        ("missing", "the answer breaks off or is malformed"),
    ],
)
def test_answer_that_is_no_image_within_the_limits_is_refused(
    images: ImageServer, path: str, reason: str
) -> None:
    url = f"http://a.example:{images.port}/{path}"
    seconds = 0.5 if path == "slow" else 60
    said = problem(Names(a_example=LOCAL), url, fetch_max_bytes=2048, fetch_timeout_seconds=seconds)
    assert said.endswith(reason)


def test_answer_in_crumbs_is_refused(images: ImageServer) -> None:
    said = problem(Names(a_example=LOCAL), f"http://a.example:{images.port}/crumbs")
    assert said.endswith("the answer comes in too small parts")


def test_image_of_exactly_the_limit_is_fetched(images: ImageServer) -> None:
    url = f"http://a.example:{images.port}/padded?bytes=2048"
    (image,) = fetch(Names(a_example=LOCAL), url, fetch_max_bytes=2048)
    assert len(image.data) == 2048


def test_images_of_a_request_are_bounded_together(images: ImageServer) -> None:
    urls = [f"http://a.example:{images.port}/padded?bytes={300_000 + number}" for number in range(4)]
    with pytest.raises(InvalidRequest, match="the images of the request have more than 1048576 bytes"):
        fetch(Names(a_example=LOCAL), *urls)


def test_more_images_than_a_prompt_may_have_are_not_fetched(images: ImageServer) -> None:
    urls = [f"http://a.example:{images.port}/red?{number}" for number in range(129)]
    with pytest.raises(InvalidRequest, match="a request may have 128 images"):
        fetch(Names(a_example=LOCAL), *urls)
    assert images.requests == []


def test_fetched_bytes_count_as_the_bodies_of_requests(images: ImageServer) -> None:
    def refuse(num_bytes: int) -> None:
        raise QueueFull(f"{num_bytes} bytes are too many")

    with pytest.raises(QueueFull, match="bytes are too many"):
        fetch(
            Names(a_example=LOCAL),
            f"http://a.example:{images.port}/red",
            call=call_of_operator(reserve=refuse),
        )


def test_proxies_and_credentials_of_the_environment_are_not_used(
    images: ImageServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert len(fetch(Names(a_example=LOCAL), f"http://a.example:{images.port}/red")) == 1
    ((_, headers),) = images.requests
    assert not {"Authorization", "Proxy-Authorization"} & set(headers)


def test_certificate_is_that_of_the_name_and_not_of_the_address(tmp_path: Path) -> None:
    files = ["-keyout", "key.pem", "-out", "cert.pem", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=a.example", "-addext", "subjectAltName=DNS:a.example"]
    subprocess.run(["openssl", "req", "-x509", *files, *named], cwd=tmp_path, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    names = Names(a_example=LOCAL, b_example=LOCAL)
    with image_server(tls=tls) as secure:
        shared = fetcher(
            names, secure.port, fetch_http=False, tls=ssl.create_default_context(cafile=tmp_path / "cert.pem")
        )
        fetched = asyncio.run(
            shared.fetch(request(f"https://a.example:{secure.port}/red"), call_of_operator())
        )
        assert len(fetched.fetched) == 1
        with pytest.raises(InvalidRequest, match="TLS fails, or its certificate is not valid"):
            asyncio.run(shared.fetch(request(f"https://b.example:{secure.port}/red"), call_of_operator()))
        assert len(secure.requests) == 1


def test_one_caller_leaves_places_for_others(images: ImageServer) -> None:
    async def run() -> int:
        shared = fetcher(Names(a_example=LOCAL), images.port)
        url = f"http://a.example:{images.port}"
        slow = [
            asyncio.create_task(
                shared.fetch(
                    request(*(f"{url}/slow?{number}{n}" for n in range(8))),
                    replace(operator_call(), fairness_key="slow"),
                )
            )
            for number in range(4)
        ]
        while sum(path.startswith("/slow") for path, _ in images.requests) < 4:
            await asyncio.sleep(0.01)
        other = await shared.fetch(request(f"{url}/red"), replace(operator_call(), fairness_key="other"))
        num_slow = sum(path.startswith("/slow") for path, _ in images.requests)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert len(other.fetched) == 1
        assert shared.totals.outcomes == {"fetched": 1, "cancelled": 4}
        return num_slow

    assert asyncio.run(run()) == 4


def test_log_and_totals_have_no_query(images: ImageServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shared = fetcher(Names(a_example=LOCAL), images.port)
    asyncio.run(shared.fetch(request(f"http://a.example:{images.port}/red?token=secret"), call_of_operator()))
    with pytest.raises(InvalidRequest):
        asyncio.run(shared.fetch(request("http://user:secret@a.example/"), call_of_operator()))
    assert (shared.totals.outcomes, shared.totals.num_bytes) == ({"fetched": 1, "refused": 1}, len(RED))
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("mlxctl")]
    assert logged[0].startswith(f"image http://a.example:{images.port}/red: fetched in ")
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "value"), [("fetch_hosts", "https://a.example"), ("fetch_networks", "10.0.0.1/8")]
)
def test_setting_that_cannot_be_read_is_named(setting: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"vision\.{setting}: "):
        ImageFetcher(VisionSettings(**{setting: (value,)}), max_request_bytes=1)  # type: ignore[arg-type]
