"""The files of the web page and their headers."""

import base64
import hashlib
import re
from pathlib import Path

import httpx
import pytest
from falcon.testing import TestClient

from mlxctl.server import web
from mlxctl.state.settings import ServerSettings
from tests.server.conftest import unstarted_app

HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def client(endless_model: Path) -> TestClient:
    """The application without an engine."""
    return unstarted_app(endless_model, ServerSettings())


def test_browsers_get_the_page_and_clients_the_greeting(client: TestClient) -> None:
    page, greeting = client.simulate_get("/", headers=HTML), client.simulate_get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert greeting.json["name"] == "mlxctl"
    assert page.headers["vary"] == greeting.headers["vary"] == "Accept"


def test_page_has_its_own_address(client: TestClient) -> None:
    page = client.simulate_get("/ui")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == client.simulate_get("/", headers=HTML).text


def test_server_without_the_page_greets_browsers_too(endless_model: Path) -> None:
    client = unstarted_app(endless_model, ServerSettings(status_page=False))
    assert client.simulate_get("/", headers=HTML).json["name"] == "mlxctl"
    assert {client.simulate_get(path).status_code for path in ("/ui", "/ui/page.js")} == {404}


def test_one_script_has_all_modules(client: TestClient) -> None:
    page = client.simulate_get("/", headers=HTML).text
    assert re.findall(r"import\(`.*?(/ui/[^`]+)`\)", page) == ["/ui/page.js"]
    script = client.simulate_get("/ui/page.js").text
    declared = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", script, re.MULTILINE)
    assert {"chatView", "modelsView", "requestsView", "cacheView", "markdown"} <= set(declared)
    # Browsers reject a script that declares a name twice.
    assert len(declared) == len(set(declared))
    assert not re.search(r"^(?:import|export) ", script, re.MULTILINE)


def test_the_policy_allows_no_foreign_or_inline_code(client: TestClient) -> None:
    answer = client.simulate_get("/", headers=HTML)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind, sources in (("style", ""), ("script", "'self' ")):
        [text] = re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src {sources}'sha256-{digest}';" in policy
    assert not re.search(r"<script[^>]|style=|onclick=|https?://", answer.text)


def test_vendored_scripts_are_those_that_their_list_names() -> None:
    vendored = Path(web.__file__).parent / "static" / "vendored"
    listed = dict(
        re.findall(r"^\| `(\S+)` .* `(\w{64})` \|$", (vendored / "README.md").read_text(), re.MULTILINE)
    )
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendored.glob("*.js")}
    assert found == listed


def test_an_unchanged_file_is_not_sent_again(client: TestClient) -> None:
    first = client.simulate_get("/ui/page.js")
    again = client.simulate_get("/ui/page.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (httpx.codes.NOT_MODIFIED, b"")


def test_names_outside_the_page_are_not_found(client: TestClient) -> None:
    for name in ("page.py", "..%2Fpage.py", "%2e%2e", "nothing"):
        assert client.simulate_get(f"/ui/{name}").status_code == 404
