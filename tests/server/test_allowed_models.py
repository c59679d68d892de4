"""A key that is limited to one model learns nothing of others.

`tiny` is its model. Other names contain `secretmodel` or `secretadapter`. A request that names one of them
gets the answer to the same request with a name that does not exist.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from mlxctl.ir.policy import SCOPES
from mlxctl.server.http.route import Operation, Route
from mlxctl.server.routes import all_routes
from tests import tiny_models
from tests.tiny_models.adapters import random_adapter
from tests.tiny_models.audio_samples import silence

from .hosted import HostedServer, hosting

ADMIN = "key-of-the-admin"
HELLO = [{"role": "user", "content": "Hello there. " * 30}]
CHAT = {"model": "MODEL", "messages": HELLO, "max_tokens": 1}
PROMPT = {"model": "MODEL", "prompt": "Hi", "max_tokens": 1}
KEYS = {"keys": ["0" * 32]}

BODIES: dict[str, tuple[Any, ...]] = {
    "POST /v1/chat/completions": (
        CHAT,
        CHAT | {"adapter": "ADAPTER"},
        CHAT | {"adapter": "x"},
        CHAT | {"model": "tiny", "adapter": "ADAPTER"},
    ),
    "POST /v1/completions": (PROMPT,),
    "POST /v1/messages": (CHAT,),
    "POST /v1/messages/count_tokens": ({"model": "MODEL", "messages": HELLO},),
    "POST /v1/responses": ({"model": "MODEL", "input": "Hi", "max_output_tokens": 1, "store": False},),
    "POST /v1/responses/input_tokens": ({"model": "MODEL", "input": "Hi"},),
    "POST /v1/responses/compact": ({"model": "MODEL", "input": "Hi", "max_output_tokens": 1},),
    "POST /v1/agents": ({"model": "MODEL", "id": "another"},),
    "PATCH /v1/agents/{agent_id}": ({"model": "MODEL"},),
    "POST /v1/agents/{agent_id}/generate": (CHAT, CHAT | {"model": "tiny", "adapter": "ADAPTER"}),
    "POST /v1/chat/completions/input_tokens": (CHAT,),
    "POST /tokenize": ({"model": "MODEL", "prompt": "Hi"},),
    "POST /detokenize": ({"model": "MODEL", "tokens": [5, 6]},),
    "POST /apply-template": ({"model": "MODEL", "messages": HELLO},),
    "POST /completion": ({"model": "MODEL", "prompt": "Hi", "n_predict": 1},),
    "POST /infill": ({"model": "MODEL", "input_prefix": "a", "input_suffix": "b", "n_predict": 1},),
    "POST /api/chat": (
        {"model": "MODEL", "messages": HELLO, "stream": False, "options": {"num_predict": 1}},
        {"model": "MODEL", "messages": []},
        {"model": "MODEL", "messages": [], "keep_alive": 0},
    ),
    "POST /api/generate": (
        {"model": "MODEL", "prompt": "Hi", "stream": False, "options": {"num_predict": 1}},
    ),
    "POST /api/show": ({"model": "MODEL"},),
    "POST /api/pull": ({"model": "MODEL"},),
    "POST /api/v0/chat/completions": (CHAT,),
    "POST /api/v0/completions": (PROMPT,),
    "POST /api/v1/chat": ({"model": "MODEL", "input": "Hi", "max_output_tokens": 1, "store": False},),
    "POST /v1/embeddings": ({"model": "MODEL", "input": "Hi"},),
    "POST /api/embed": ({"model": "MODEL", "input": "Hi", "keep_alive": 0},),
    "POST /api/embeddings": ({"model": "MODEL", "prompt": "Hi"},),
    "POST /embedding": ({"model": "MODEL", "content": "Hi"},),
    "POST /v1/rerank": ({"model": "MODEL", "query": "a", "documents": ["b"]},),
    "POST /v2/rerank": ({"model": "MODEL", "query": "a", "documents": ["b"]},),
    "POST /v1/audio/transcriptions": ({"model": "MODEL"},),
    "POST /v1/audio/translations": ({"model": "MODEL"},),
    "POST /v1/audio/speech": ({"model": "MODEL", "input": "Hi"},),
    "POST /models/load": ({"model": "MODEL"}, {"model": "MODEL", "stream": True}),
    "POST /models/unload": ({"model": "MODEL"},),
    "POST /models/pin": ({"model": "MODEL"},),
    "POST /models/unpin": ({"model": "MODEL"},),
    "POST /api/v1/models/load": ({"model": "MODEL"},),
    "POST /api/v1/models/unload": ({"instance_id": "MODEL"},),
    "POST /api/v1/models/download": ({"model": "org/MODEL"}, {"model": "MODEL"}),
    "POST /downloads": ({"repo": "org/MODEL"}, {"repo": "MODEL"}),
    "POST /v1/adapters": ({"id": "new", "path": "noise", "model": "MODEL"}, {"id": "new", "path": "MODEL"}),
    "POST /v1/load_lora_adapter": (
        {"lora_name": "new", "lora_path": "noise", "base_model_name": "MODEL"},
        {"lora_name": "new", "lora_path": "MODEL"},
    ),
    "POST /v1/unload_lora_adapter": ({"lora_name": "ADAPTER"},),
    "POST /cache/explain": ({"body": CHAT}, {"protocol": "messages", "body": CHAT}),
    "POST /cache/pin": (KEYS,),
    "POST /cache/unpin": (KEYS,),
    "POST /cache/drop": (KEYS,),
}
"""Well-formed bodies by operation. `MODEL` stands for a model's name, `ADAPTER` for that of an adapter."""

PATHS: dict[str, tuple[str, ...]] = {
    "/v1/models/{name:path}": ("/v1/models/MODEL",),
    "/api/v0/models/{name:path}": ("/api/v0/models/MODEL",),
    "/v1/adapters/{name}": ("/v1/adapters/ADAPTER", "/v1/adapters/ADAPTER?model=MODEL"),
    "/downloads/{repository:path}": ("/downloads/org/MODEL",),
    "/api/v1/models/download/status/{job_id}": ("/api/v1/models/download/status/JOB",),
    "/requests/{request_id}": ("/requests/request-of-MODEL",),
    "/slots/{slot}": ("/slots/0",),
    "/v1/responses/{response_id}": ("/v1/responses/resp_none",),
    "/v1/responses/{response_id}/cancel": ("/v1/responses/resp_none/cancel",),
    "/v1/responses/{response_id}/input_items": ("/v1/responses/resp_none/input_items",),
    "/v1/agents/{agent_id}": ("/v1/agents/own",),
    "/v1/agents/{agent_id}/messages": ("/v1/agents/own/messages",),
    "/v1/agents/{agent_id}/reset": ("/v1/agents/own/reset",),
    "/v1/agents/{agent_id}/generate": ("/v1/agents/own/generate",),
    "/admin/keys/{key_id}": ("/admin/keys/key_none",),
    "/admin/keys/{key_id}/rotate": ("/admin/keys/key_none/rotate",),
    "/admin/limits/{key_id}": ("/admin/limits/key_none",),
    "/cache/explain": ("/cache/explain?last=64",),
}
"""Addresses of the routes with parameters, with the same placeholders. `JOB` is the id of a download."""

SHOWN_TO_ADMINS = """
    /v1/models /models /api/tags /api/ps /api/v0/models /api/v1/models /library /fit /downloads
    /v1/adapters /lora-adapters /health /v1/health /stats /metrics /requests /slots /cache /cache/explain
    /admin/audit /v1/audio/voices
"""
"""Views that name models; here they have something to hide."""

TEXT_MODELS = (
    "secretmodel",
    "secretmodel:secretadapter",
    "secretadapter",
    "secretmodel-alias",
    "secretmodel-broken",
    "secretmodel-shelf",
)
FORBIDDEN = {
    "generate": ("secretmodel", "secretmodel:secretadapter"),
    "embed": ("secretmodel-embedder", "secretmodel"),
    "audio": ("secretmodel-speech", "secretmodel-voice", "secretmodel"),
}
"""By access, of routes that look models up in the same way."""


@dataclass(frozen=True)
class Case:
    """An operation of the table at one of its paths."""

    route: Route
    operation: Operation
    path: str

    @property
    def name(self) -> str:
        """The operation's name in `BODIES`."""
        return f"{self.operation.method.upper()} {self.route.path}"

    @property
    def requests(self) -> Iterator[tuple[str, Any]]:
        """Addresses and bodies with placeholders."""
        paths = PATHS.get(self.path, (self.path,))
        if any(query.name == "model" for query in self.operation.query) and self.path not in PATHS:
            paths = (*paths, f"{self.path}?model=MODEL")
        for path in paths:
            for body in BODIES.get(self.name, ({},) if self.operation.takes_body else (None,)):
                yield path, body


CASES = [
    Case(route, operation, path)
    for route in all_routes()
    for operation in route.operations
    for path in route.paths
]


def ids(case: Case) -> str:
    return f"{case.operation.method.upper()} {case.path}"


def is_naming(path: str, body: Any) -> bool:
    text = path + json.dumps(body)
    return any(placeholder in text for placeholder in ("MODEL", "ADAPTER", "JOB"))


def refusal(case: Case, body: Any) -> int:
    """Return the status of a request that names something unknown."""
    if case.path == "/admin/audit":
        return 200  # The name is a filter, which nothing matches.
    if case.name in ("POST /downloads", "POST /api/v1/models/download"):
        return 403
    names_adapter = any(field in (body or {}) for field in ("adapter", "path", "lora_path"))
    return 400 if names_adapter and "noise" not in body.values() else 404


@dataclass(frozen=True)
class LimitedKey:
    """A server with secrets, and the client of a limited key."""

    server: HostedServer
    client: httpx.Client
    admin: httpx.Client

    def send(self, case: Case, path: str, body: Any, name: str) -> httpx.Response:
        """Send a request with this name in place of `MODEL`."""
        method, address = case.operation.method, filled(path, name)
        if body is None:
            return self.client.request(method, address)
        content = json.loads(filled(json.dumps(body), name))
        if case.operation.form is not None:
            return self.client.request(method, address, data=content, files={"file": silence(0.1)})
        return self.client.request(method, address, json=content)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedKey]:
    """A server whose secret models were used."""
    root = tmp_path_factory.mktemp("allowed")
    secret = shutil.copytree(tiny_models.model("endless"), root / "models" / "secretmodel")
    shutil.copytree(tiny_models.model("llama3"), root / "models" / "secretmodel-shelf")
    shutil.copytree(tiny_models.model("embedder"), root / "models" / "secretmodel-embedder")
    shutil.copytree(tiny_models.trained("whisper_words"), root / "models" / "secretmodel-speech")
    shutil.copytree(tiny_models.speech("soprano"), root / "models" / "secretmodel-voice")
    shutil.copytree(tiny_models.model("llama3"), root / "models" / "secretmodel-broken")
    (root / "models" / "secretmodel-broken" / "config.json").write_text("{")
    own = shutil.copytree(tiny_models.model("qwen3"), root / "models" / "own")
    random_adapter(secret, root / "secretadapter", seed=1)
    random_adapter(own, root / "adapters" / "noise", seed=2)
    ends = ("", "-embedder", "-speech", "-voice", "-broken")
    served = [str(root / "models" / f"secretmodel{end}") for end in ends]
    (root / "settings.toml").write_text(
        f"""
        [pool]
        models = {served}
        allow_library = true
        pins = ["secretmodel"]
        [library]
        models_dirs = ["{root / "models"}"]
        hub_cache = "{root / "hub"}"
        aliases = {{ "secretmodel-alias" = "secretmodel" }}
        allow_downloads = true
        [adapters]
        dirs = ["{root / "adapters"}"]
        default = "secretadapter"
        [adapters.paths]
        "tiny:mine" = "{root / "adapters" / "noise"}"
        "secretmodel:secretadapter" = "{root / "secretadapter"}"
        [audit]
        enabled = true
        """
    )
    options = ("--config", str(root / "settings.toml"), "--admin-key", ADMIN)
    with (
        hosting(own, *options, HF_ENDPOINT="http://127.0.0.1:1") as server,
        client_of(server, ADMIN) as admin,
    ):
        scopes = [scope for scope in SCOPES if scope != "admin"]
        added = admin.post("/admin/keys", json={"name": "limited", "scopes": scopes, "models": ["tiny"]})
        with client_of(server, added.raise_for_status().json()["key"]) as client:
            client.post("/v1/agents", json={"model": "tiny", "id": "own"}).raise_for_status()
            client.post("/v1/messages", json=CHAT | {"model": "tiny"}).raise_for_status()
            for model in ("secretmodel", "secretmodel:none"):
                admin.post("/v1/messages", json=CHAT | {"model": model}).raise_for_status()
            embedded = {"model": "secretmodel-embedder", "input": "Hi"}
            admin.post("/v1/embeddings", json=embedded).raise_for_status()
            admin.post("/downloads", json={"repo": "org/secretmodel"}).raise_for_status()
            yield LimitedKey(server, client, admin)


@pytest.fixture
def generating(limited: LimitedKey) -> Iterator[LimitedKey]:
    """The same server while a secret model generates."""
    endless = CHAT | {"model": "secretmodel:none", "max_tokens": 30_000, "stream": True}
    headers = {"x-request-id": "request-of-secretmodel"}
    with limited.admin.stream("POST", "/v1/chat/completions", json=endless, headers=headers) as stream:
        lines = stream.iter_lines()
        next(lines)
        yield limited


def client_of(server: HostedServer, key: str) -> httpx.Client:
    # The same id, so that answers can be compared.
    headers = {"x-api-key": key, "x-request-id": "same"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


def filled(text: str, name: str) -> str:
    """Return a part of a request with this name and an adapter."""
    job = f"job_{hashlib.sha256(f'org/{name}'.encode()).hexdigest()[:16]}"
    adapter = "secretadapter" if name != unknown(name) else "nosuchadapter"
    return text.replace("MODEL", name).replace("ADAPTER", adapter).replace("JOB", job)


def unknown(text: str) -> str:
    """Return a text with unknown names in place of secret ones."""
    return text.replace("secretmodel", "nosuchmodel").replace("secretadapter", "nosuchadapter")


def tells(answer: httpx.Response) -> bool:
    """Whether an answer has a secret name."""
    text = answer.text + str(answer.headers)
    return text != unknown(text)


def test_every_operation_has_a_well_formed_request() -> None:
    reached = [case for case in CASES if case.route.access != "admin"]
    bodies = {case.name for case in reached if case.operation.takes_body}
    assert bodies <= BODIES.keys(), f"add to BODIES a well-formed body of {bodies - BODIES.keys()}"
    paths = {case.path for case in CASES if "{" in case.path}
    assert paths <= PATHS.keys(), f"add to PATHS an address of {paths - PATHS.keys()}"


@pytest.mark.parametrize("case", [case for case in CASES if case.operation.method == "get"], ids=ids)
def test_views_show_only_the_models_of_the_key(generating: LimitedKey, case: Case) -> None:
    for path, body in case.requests:
        if not is_naming(path, body):
            answer = generating.send(case, path, body, "")
            assert answer.status_code < 500
            assert not tells(answer)
            # The test of the test: an admin sees what is hidden.
            assert case.path not in SHOWN_TO_ADMINS.split() or tells(generating.admin.get(path))


@pytest.mark.parametrize(
    "case", [case for case in CASES if any(is_naming(*each) for each in case.requests)], ids=ids
)
def test_models_of_others_are_as_unknown_as_those_that_do_not_exist(
    limited: LimitedKey, case: Case, request: pytest.FixtureRequest
) -> None:
    if case.path.startswith("/requests/"):
        request.getfixturevalue("generating")
    names = FORBIDDEN.get(case.route.access, TEXT_MODELS)
    for path, body in case.requests:
        # Aliases of a path have the same resource.
        has_many = case.path == case.route.path and "MODEL" in path + json.dumps(body)
        for name in names if has_many else names[:1]:
            if is_naming(path, body):
                answer = limited.send(case, path, body, name)
                control = limited.send(case, path, body, unknown(name))
                assert answer.status_code == refusal(case, body), (path, body, name, answer.text)
                assert not tells(control)
                assert unknown(str(answer.headers)) == str(answer.headers)
                expected = control.text.replace(filled("JOB", unknown(name)), filled("JOB", name))
                assert (answer.status_code, unknown(answer.text)) == (control.status_code, expected)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if any(body and body.get("model") == "MODEL" for _, body in case.requests)],
    ids=ids,
)
def test_request_without_a_model_gets_none_of_others(limited: LimitedKey, case: Case) -> None:
    for path, body in case.requests:
        without = {field: value for field, value in body.items() if field != "model"}
        if not is_naming(path, without):
            answer = limited.send(case, path, without, "")
            assert answer.status_code < 500, answer.text
            assert not tells(answer)


def test_websocket_knows_no_model_of_others(limited: LimitedKey) -> None:
    def answer(model: str, **fields: Any) -> str:
        socket.send(json.dumps({"type": "response.create", "model": model, "input": "Hi", **fields}))
        return str(socket.recv(timeout=60))

    url = limited.server.url.replace("http", "ws", 1) + "/v1/responses"
    headers = {"x-api-key": limited.client.headers["x-api-key"]}
    with connect(url, additional_headers=headers) as socket:
        for name in TEXT_MODELS:
            refused = answer(name)
            assert json.loads(refused)["type"] == "error"
            assert unknown(refused) == answer(unknown(name))
        refused = answer("tiny", adapter="secretadapter")
        assert unknown(refused) == answer("tiny", adapter="nosuchadapter")


@pytest.mark.parametrize("case", [case for case in CASES if case.operation.method != "get"], ids=ids)
def test_actions_without_a_name_show_and_change_nothing_of_others(limited: LimitedKey, case: Case) -> None:
    for path, body in case.requests:
        if not is_naming(path, body):
            assert not tells(limited.send(case, path, body, ""))
    assert "secretadapter" in limited.admin.get("/v1/adapters").text
    states = {model["id"]: model["state"] for model in limited.admin.get("/v1/models").json()["data"]}
    assert states["secretmodel"] == "loaded"
