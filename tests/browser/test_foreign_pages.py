"""Requests of foreign pages to servers without keys, by a real browser."""

from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import FOREIGN_NAME
from tests.server.hosted import HostedServer, hosting
from tests.server.process import ServerProcess, wait_for

RULES = {"blocklist": ["the"], "action": "redact"}
CHAT = {"model": "mlxctl-demo", "messages": [{"role": "user", "content": "walrus " * 100}], "max_tokens": 4}
UNLOAD = {"model": "mlxctl-demo", "keep_alive": 0}

# Return the status and text of a request, or the error that the page gets.
_FETCH = """async ([url, method, body, options]) => {
  const headers = body && !options?.mode ? { "Content-Type": "application/json" } : {};
  try {
    const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body), ...options });
    return answer.type === "opaque" ? "opaque" : [answer.status, await answer.text()];
  } catch (error) {
    return error.name;
  }
}"""
# Return how each way without scripts and each long connection ends.
_OTHER_WAYS = """async (url) => {
  const ended = (target) => new Promise((resolve) => {
    for (const name of ["load", "open", "error"]) target.addEventListener(name, () => resolve(name));
  });
  const element = (name, attributes) => {
    const node = Object.assign(document.createElement(name), attributes);
    document.body.append(node);
    return node;
  };
  const answer = element("iframe", { name: "answer" });
  const action = `${url}/cache/clear`;
  const form = element("form", { action, method: "post", enctype: "text/plain", target: answer.name });
  form.submit();
  await ended(answer);
  const socketUrl = url.replace("http", "ws") + "/v1/responses";
  return {
    image: await ended(element("img", { src: `${url}/cache` })),
    script: await ended(element("script", { src: `${url}/v1/models` })),
    events: await ended(new EventSource(`${url}/stats`)),
    socket: await ended(new WebSocket(socketUrl)),
  };
}"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer every path with an empty page."""
        content = b"<!doctype html><title>foreign</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def foreign_url() -> Iterator[str]:
    """The URL of another server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://{FOREIGN_NAME}:{listening.server_port}/"
        listening.shutdown()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """An empty tab, whose console may have errors."""
    with closing(browser.new_context()) as context:
        yield context.new_page()


@pytest.fixture(scope="module")
def open_server() -> Iterator[HostedServer]:
    """A server that allows every origin."""
    with hosting(None, "--cors-origin", "*") as process:
        yield process


def test_page_whose_name_points_at_the_server_gets_nothing(tab: Page, server: ServerProcess) -> None:
    tab.goto(f"http://{FOREIGN_NAME}:{urlsplit(server.url).port}/")
    answers = [
        tab.evaluate(_FETCH, request)
        for request in (["/cache", "GET"], ["/v1/models", "GET"], ["/admin/guardrails", "PUT", RULES])
    ]
    assert [status for status, _ in answers] == [400] * 3
    assert all("host_not_allowed" in text for _, text in answers)


def test_foreign_page_reads_and_changes_nothing(tab: Page, server: ServerProcess, foreign_url: str) -> None:
    tab.goto(foreign_url)
    number = num_requests(server)
    read = [tab.evaluate(_FETCH, [f"{server.url}{path}", "GET"]) for path in ("/cache", "/v1/models")]
    written = [
        tab.evaluate(_FETCH, [f"{server.url}{path}", method, body])
        for method, path, body in (
            ("PUT", "/admin/guardrails", RULES),
            ("POST", "/v1/chat/completions", CHAT),
            ("POST", "/models/unload", {"model": "mlxctl-demo"}),
        )
    ]
    sent = [
        tab.evaluate(_FETCH, [f"{server.url}{path}", "POST", body, {"mode": "no-cors"}])
        for path, body in (("/v1/chat/completions", CHAT), ("/api/generate", UNLOAD), ("/cache/clear", {}))
    ]
    assert read + written == ["TypeError"] * 5
    assert sent == ["opaque"] * 3
    assert (num_requests(server), guardrails(server), is_loaded(server)) == (number, [], True)


def test_forms_elements_and_sockets_of_a_foreign_page_get_nothing(
    tab: Page, server: ServerProcess, foreign_url: str
) -> None:
    httpx.post(f"{server.url}/v1/chat/completions", json=CHAT).raise_for_status()
    wait_for(lambda: num_cached(server), seconds=60)
    number = num_cached(server)
    tab.goto(foreign_url)
    ends = tab.evaluate(_OTHER_WAYS, server.url)
    assert ends == {"image": "error", "script": "error", "events": "error", "socket": "error"}
    assert num_cached(server) == number


def test_foreign_page_cannot_frame_the_web_page(tab: Page, server: ServerProcess, foreign_url: str) -> None:
    tab.goto(foreign_url)
    with tab.expect_event("requestfailed") as failed:
        tab.evaluate(
            "url => { document.body.innerHTML = `<iframe src='${url}'></iframe>`; }", f"{server.url}/ui"
        )
    assert failed.value.failure == "net::ERR_BLOCKED_BY_RESPONSE"


def test_any_allowed_origin_lists_models_and_generates_only(
    tab: Page, open_server: HostedServer, foreign_url: str
) -> None:
    tab.goto(foreign_url)
    status, models = tab.evaluate(_FETCH, [f"{open_server.url}/v1/models", "GET"])
    generated, _ = tab.evaluate(_FETCH, [f"{open_server.url}/v1/chat/completions", "POST", CHAT])
    refused = [
        tab.evaluate(_FETCH, [f"{open_server.url}{path}", method, body])
        for method, path, body in (
            ("GET", "/cache", None),
            ("GET", "/requests", None),
            ("PUT", "/admin/guardrails", RULES),
            ("DELETE", "/v1/agents/coder", None),
            ("POST", "/models/unload", {"model": "mlxctl-demo"}),
        )
    ]
    tab.evaluate(_FETCH, [f"{open_server.url}/api/generate", "POST", UNLOAD])
    assert (status, "mlxctl-demo" in models, generated) == (200, True, 200)
    assert all(status == 400 and "origin_not_allowed" in text for status, text in refused)
    assert (guardrails(open_server), is_loaded(open_server)) == ([], True)


def num_requests(server: ServerProcess) -> int:
    """Return how many requests the server has taken."""
    found = httpx.get(f"{server.url}/requests").json()["requests"]
    return max((request["number"] for request in found), default=0)


def num_cached(server: ServerProcess) -> int:
    """Return how many chunks the prefix cache has."""
    return len(httpx.get(f"{server.url}/cache").json()["chunks"])


def guardrails(server: ServerProcess | HostedServer) -> list[str]:
    """Return the words that the server refuses."""
    words: list[str] = httpx.get(f"{server.url}/admin/guardrails").json().get("blocklist", [])
    return words


def is_loaded(server: ServerProcess | HostedServer) -> bool:
    """Whether the demo model is loaded."""
    models = httpx.get(f"{server.url}/v1/models").json()["data"]
    return any(model["id"] == "mlxctl-demo" and model["state"] == "loaded" for model in models)
