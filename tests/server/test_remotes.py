"""Other servers behind this address, and what never leaves it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx
import openai
import pytest

from mlxctl.inference.routing.breaker import MAX_FAILURES
from tests.remote_double import RemoteDouble, Script, chunks, remote_double

from .hosted import HostedServer, hosting
from .process import ServerProcess

CLOSED = "http://127.0.0.1:9"
ASKED = [{"role": "user", "content": "Hello"}]
BROKEN = {
    "html": Script(body=b"<html>Sign in</html>", media_type="text/html"),
    "garbage": Script(body=b"data: {]\n\n"),
    "nothing": Script(body=b""),
    "redirect": Script(status=302, headers={"Location": "http://127.0.0.1:9/"}),
    "wrong-key": Script(status=401, body=b'{"error":{"message":"key sk-canary is wrong"}}'),
    "gone": Script(status=404, body=b'{"error":{"message":"no such model"}}'),
    "failing": Script(status=500, body=b'{"error":{"message":"out of memory"}}'),
    "busy": Script(status=429, body=b'{"error":{"message":"slow down"}}', headers={"Retry-After": "7"}),
    "picky": Script(status=400, body=b'{"error":{"message":"too hot","param":"temperature"}}'),
    "hanging": Script(hangs=True),
    "half": Script(body=chunks("Half an ", done=False)),
}


def remote(name: str, url: str, *models: str, more: str = "") -> str:
    return f'[[remotes]]\nname = "{name}"\nurl = "{url}"\nmodels = {json.dumps(models)}\n{more}\n'


def rule(**conditions: Any) -> str:
    return "[[routes]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in conditions.items())


class Front:
    """The server under test, and what it can reach."""

    def __init__(self, server: HostedServer, near: RemoteDouble, second: RemoteDouble, cloud: RemoteDouble):
        self.server, self.near, self.second, self.cloud = server, near, second, cloud

    def chat(self, model: str, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        body = {"model": model, "messages": ASKED, "max_tokens": 4, **fields}
        return httpx.post(
            f"{self.server.url}/v1/chat/completions", json=body, headers=headers or {}, timeout=60
        )

    def metric(self, line: str) -> float:
        text = httpx.get(f"{self.server.url}/metrics").text
        return float(next(each for each in text.splitlines() if each.startswith(line)).rpartition(" ")[2])


@pytest.fixture(scope="module")
def front(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A front with the demo model; other models are elsewhere."""
    with ExitStack() as stack:
        near, second, cloud = (stack.enter_context(remote_double(**BROKEN)) for _ in range(3))
        broken_model = tmp_path_factory.mktemp("models") / "broken"
        broken_model.mkdir()
        config = tmp_path_factory.mktemp("config") / "mlxctl.toml"
        blocklist = config.with_name("blocklist.txt")
        blocklist.write_text("project falcon\n")
        config.write_text(
            remote("peer", server.url, "tiny")
            + remote("messages", server.url, "tiny", more='protocol = "anthropic"\npriority = 9')
            + "".join(remote(name, near.url, name) for name in BROKEN if name != "hanging")
            + remote("hanging", near.url, "hanging", more="timeout_seconds = 0.5")
            + remote("down", CLOSED, "down", "lost")
            + remote("near", near.url, "shared", "near")
            + remote("second", second.url, "shared")
            + remote("cloud", cloud.url, "cloudy", more="cloud = true")
            + rule(to="cloud", when="failure", model="down")
            + rule(to="cloud", model="demo", min_prompt_bytes=1)
            + rule(to="near", use="near", model="first")
            + rule(to="near", use="near", model="mlxctl-demo", min_prompt_bytes=5000)
            + rule(to="near", use="near", model="demo", when="no_memory")
            + rule(to="near", use="near", model="broken", when="failure")
            + rule(to="local", use="demo", model="lost", when="failure")
            + '[guardrails]\nblocklist = ["unspeakable"]\napply_to = ["input", "output"]\n'
            + f"blocklist_file = {json.dumps(str(blocklist))}\n"
        )
        named = ("--config", str(config), "--audit", "--model", "demo", "--model", str(broken_model))
        hosted = stack.enter_context(hosting(None, *named))
        yield Front(hosted, near, second, cloud)


def test_models_show_where_they_live(front: Front) -> None:
    listed = httpx.get(f"{front.server.url}/v1/models").json()["data"]
    places = {model["id"]: model["remote"] for model in listed}
    assert (places["tiny"], places["near"], places["mlxctl-demo"]) == ("peer", "near", None)
    assert "cloudy" not in places


@pytest.mark.parametrize("stream", [False, True])
def test_vendors_clients_reach_another_mlxctl(front: Front, stream: bool) -> None:
    with openai.OpenAI(base_url=f"{front.server.url}/v1", api_key="-", max_retries=0) as client:
        answer: Any = client.chat.completions.create(
            model="tiny",
            messages=ASKED,
            max_tokens=5,
            stream=stream,
            extra_body={"seed": 1, "temperature": 0},
        )
        texts = [each.choices[0].delta.content for each in answer if each.choices] if stream else []
        text = "".join(filter(None, texts)) if stream else answer.choices[0].message.content
        responded = client.responses.create(model="tiny", input="Hello", max_output_tokens=5)
    with anthropic.Anthropic(base_url=front.server.url, api_key="-", max_retries=0) as vendor:
        message = vendor.messages.create(model="tiny", messages=ASKED, max_tokens=5)
    assert text
    assert responded.usage is not None
    assert (responded.usage.output_tokens, message.usage.output_tokens) == (5, 5)
    assert message.stop_reason == "max_tokens"
    assert (
        message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
        == responded.usage.input_tokens
    )


@pytest.mark.parametrize(
    ("model", "status", "word"),
    [
        ("html", 502, "text/html"),
        ("garbage", 502, "cannot be read"),
        ("nothing", 502, "ended during the answer"),
        ("redirect", 502, "redirects"),
        ("wrong-key", 502, "set api_key_env"),
        ("gone", 502, "no such model"),
        ("failing", 502, "out of memory"),
        ("busy", 503, "slow down"),
        ("picky", 400, "too hot"),
        ("hanging", 502, "sends nothing"),
        ("half", 502, "ended during the answer"),
    ],
)
def test_broken_remote_is_one_clear_error(front: Front, model: str, status: int, word: str) -> None:
    answer = front.chat(model)
    assert answer.status_code == status
    assert word in (message := answer.json()["error"]["message"])
    assert f"remote '{model}'" in message
    assert "127.0.0.1" not in message
    assert "sk-canary" not in message


def test_closed_port_is_named(front: Front) -> None:
    answer = front.chat("down")
    # Its health checks may have opened the breaker.
    assert answer.status_code in (502, 503)
    assert "remote 'down'" in (message := answer.json()["error"]["message"])
    assert "the connection is refused" in message


def test_half_an_answer_ends_the_stream_with_an_error(front: Front) -> None:
    answer = front.chat("half", stream=True)
    assert answer.status_code == 200
    assert "Half an " in answer.text
    assert "remote 'half'" in answer.text


def test_breaker_opens_after_failures_and_asks_no_more(front: Front) -> None:
    while front.metric('mlxctl_remote_breaker{remote="failing",state="open"}') == 0:
        assert front.near.num_asked("failing") < MAX_FAILURES
        front.chat("failing")
    num_asked = front.near.num_asked("failing")
    refused = front.chat("failing")
    assert (refused.status_code, front.near.num_asked("failing")) == (503, num_asked)
    assert int(refused.headers["retry-after"]) >= 1
    assert front.metric('mlxctl_remote_breaker_changes_total{remote="failing",state="open"}') == 1


def test_next_server_answers_before_the_first_byte(front: Front) -> None:
    front.near.scripts["shared"] = Script(status=500, body=b"{}")
    answer = front.chat("shared", messages=[{"role": "user", "content": "fail over"}])
    del front.near.scripts["shared"]
    assert (answer.status_code, answer.headers["x-mlxctl-route"]) == (200, "remote:second")
    assert answer.json()["usage"]["total_tokens"] == 9


def test_conversation_stays_at_the_server_that_has_its_prefix(front: Front) -> None:
    def ask(*texts: str) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        return front.chat("shared", messages=messages).headers["x-mlxctl-route"]

    front.near.scripts["shared"] = Script(status=500, body=b"{}")
    assert ask("sticky") == "remote:second"
    del front.near.scripts["shared"]
    assert ask("other") == "remote:near"
    assert ask("sticky", "Well met", "more") == "remote:second"


def test_rules_fire(front: Front) -> None:
    """By name, by length, and where the model fails."""
    assert front.chat("first").headers["x-mlxctl-route"] == "remote:near"
    assert front.near.asked[-1]["model"] == "near"
    assert front.chat("mlxctl-demo").headers["x-mlxctl-route"] == "local"
    long = [{"role": "user", "content": "word " * 1000}]
    assert front.chat("mlxctl-demo", messages=long).headers["x-mlxctl-route"] == "remote:near"
    assert front.chat("broken").headers["x-mlxctl-route"] == "remote:near"
    assert front.chat("lost").headers["x-mlxctl-route"] == "local"


def test_prompt_beyond_the_context_goes_elsewhere(front: Front) -> None:
    long = [{"role": "user", "content": "word " * 20_000}]
    assert front.chat("demo", messages=long).headers["x-mlxctl-route"] == "remote:near"
    assert front.chat("demo", messages=long, headers={"x-mlxctl-route": "local"}).status_code == 400


@pytest.mark.parametrize(("model", "pin"), [("broken", "local"), ("lost", "remote"), ("near", "local")])
def test_pinned_request_falls_nowhere(front: Front, model: str, pin: str) -> None:
    num_asked = len(front.near.asked)
    answer = front.chat(model, headers={"x-mlxctl-route": pin})
    assert answer.status_code >= 400
    assert len(front.near.asked) == num_asked


def test_nothing_reaches_the_cloud_unless_it_is_on(front: Front) -> None:
    """Names, rules and pins lead there in vain; no check does."""
    for model in ("down", "demo", "cloudy"):
        front.chat(model, headers={"x-mlxctl-route": "remote"})
        front.chat(model)
    refused = front.chat("cloudy", headers={"x-mlxctl-route": "remote"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "feature_disabled")
    assert front.cloud.num_connections == 0


def test_route_is_in_requests_and_audit(front: Front) -> None:
    front.chat("near", headers={"x-request-id": "where-was-it"})
    (view, *_) = httpx.get(f"{front.server.url}/requests").json()["requests"]
    assert (view["request_id"], view["route"], view["num_generated_tokens"]) == (
        "where-was-it",
        "remote:near",
        2,
    )
    records = httpx.get(f"{front.server.url}/admin/audit?limit=20").json()["records"]
    assert {each["backend"] for each in records if each["request_id"] == "where-was-it"} == {"remote:near"}


def test_agent_keeps_its_conversation_with_a_remote(front: Front) -> None:
    agents = f"{front.server.url}/v1/agents"
    assert httpx.post(agents, json={"model": "near", "id": "far-off"}).status_code == 201
    for text in ("Hello", "Again"):
        turn = {"messages": [{"role": "user", "content": text}]}
        assert httpx.post(f"{agents}/far-off/generate", json=turn).status_code == 200
    contents = [message["content"] for message in front.near.asked[-1]["messages"]]
    assert contents == ["Hello", "Well met", "Again"]


def test_request_that_comes_back_is_refused(front: Front) -> None:
    front.chat("near")
    via = front.near.heads[-1]["x-mlxctl-via"]
    answer = front.chat("near", headers={"x-mlxctl-via": f"0123456789abcdef, {via}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (508, "loop_detected")
    assert httpx.get(f"{front.server.url}/v1/models", headers={"x-mlxctl-via": via}).status_code == 508


def test_guardrails_apply_to_prompt_and_answer(front: Front) -> None:
    num_asked = len(front.near.asked)
    for text in ("say unspeakable", "tell me of project falcon"):
        refused = front.chat("near", messages=[{"role": "user", "content": text}])
        assert (refused.status_code, len(front.near.asked)) == (400, num_asked)
    front.near.scripts["near"] = Script(body=chunks("It is unspeak", "able", " indeed"))
    answer = front.chat("near")
    del front.near.scripts["near"]
    assert "unspeakable" not in answer.text


def test_web_page_chats_with_a_remote_model_and_continues_its_answer(front: Front) -> None:
    counts = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    started = [*ASKED, {"role": "assistant", "content": "Well"}]
    continued = {"messages": started, "continue_final_message": True, "add_generation_prompt": False}
    answers = [front.chat("near", **counts), front.chat("near", **counts, **continued)]
    assert [answer.status_code for answer in answers] == [200, 200], answers[-1].text
    usages = [
        json.loads(line[6:])["usage"] for line in answers[0].text.splitlines() if line.startswith("data: {")
    ]
    assert usages[-1]["completion_tokens"] == 2
    assert front.near.asked[-1]["add_generation_prompt"] is False


@pytest.mark.parametrize(
    "option",
    [
        {"n": 2},
        {"logprobs": True},
        {"stop_token_ids": [1]},
        {"return_token_ids": True},
        {"adapter": "none-such"},
    ],
)
def test_option_without_a_place_in_the_protocol_is_refused_by_name(
    front: Front, option: dict[str, Any]
) -> None:
    answer = front.chat("near", **option)
    assert answer.status_code == 400
    assert next(iter(option)) in answer.json()["error"]["message"]
