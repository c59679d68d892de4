"""Explanations of cache hits and misses, one test for each reason."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

PROSE = "The sea is wide and the hills are old; boats leave in the morning and come home at night. "


# A model with layers that cannot be cut, and one that reads the same prompts as the endless one.
HYBRID, OTHER = tiny_models.model("lfm2"), tiny_models.model("qwen3")


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    with hosting(endless_model, "--model", str(HYBRID), "--model", str(OTHER)) as running:
        yield running


@pytest.fixture(scope="module")
def small(endless_model: Path) -> Iterator[HostedServer]:
    """A server whose cache holds one conversation and that keeps agents' headers."""
    with hosting(
        endless_model, "--prefix-cache", "700KB", "--cache-disk-bytes", "0", "--keep-agent-headers"
    ) as running:
        yield running


class Agent:
    """A conversation with a unique first message."""

    def __init__(self, server: HostedServer) -> None:
        self.server = server
        self.system = f"You are {secrets.token_hex(8)}. " + PROSE * 2

    def body(self, *turns: Any, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "system", "content": self.system}, *turns]
        return {"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0} | fields

    def ask(self, *turns: Any, **fields: Any) -> dict[str, Any]:
        """Ask, and return the answer."""
        answer = httpx.post(
            f"{self.server.url}/v1/chat/completions", json=self.body(*turns, **fields), timeout=60
        )
        message: dict[str, Any] = answer.raise_for_status().json()["choices"][0]["message"]
        return message

    def explained(self) -> dict[str, Any]:
        """Explain the last request."""
        answer = (
            httpx.get(f"{self.server.url}/cache/explain", params={"last": 1}, timeout=60)
            .raise_for_status()
            .json()
        )
        explanation: dict[str, Any] = answer["explanations"][0]
        return explanation


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Does {name}.", "parameters": parameters},
    }


def test_new_prompt_is_a_miss(server: HostedServer) -> None:
    agent = Agent(server)
    agent.system = secrets.token_hex(30)
    agent.ask(user("Hello"))

    found = agent.explained()

    assert (found["reason"], found["num_cached_tokens"], found["compared_with"]) == ("first", 0, None)


def test_a_repeated_prompt_below_the_shortest_prefix_is_named_too_short(server: HostedServer) -> None:
    body = {"model": "tiny", "prompt": "Hi", "max_tokens": 1}
    for _ in range(2):
        httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).raise_for_status()

    found = Agent(server).explained()

    assert (found["reason"], found["num_cached_tokens"]) == ("too_short", 0)
    assert "from 16 tokens on" in found["sentence"]


def test_repeated_prompt_is_a_full_hit(server: HostedServer) -> None:
    agent = Agent(server)
    for _ in range(2):
        agent.ask(user("Hello"))

    found = agent.explained()

    assert (found["reason"], found["num_cached_tokens"]) == ("all_known", found["num_prompt_tokens"] - 1)


def test_continued_conversation_hits(server: HostedServer) -> None:
    agent = Agent(server)
    reply = agent.ask(user("Hello"))
    agent.ask(user("Hello"), reply, user("And then?"))

    found = agent.explained()

    assert found["reason"] == "continued"
    assert found["divergence"] is None


def test_changed_message_is_named_with_its_old_text(server: HostedServer) -> None:
    agent = Agent(server)
    reply = agent.ask(user("Hello"))
    agent.ask(user("Tell me of boats"), reply, user("More"))
    agent.ask(user("Tell me of hills"), reply, user("More"))

    found = agent.explained()

    divergence = found["divergence"]
    assert (found["reason"], divergence["message"], divergence["place"]) == (
        "message_changed",
        1,
        "message 2 (user)",
    )
    assert divergence["position"] == found["num_cached_tokens"]
    assert divergence["before"].endswith("Tell me of ")
    assert divergence["here"].startswith("hills")
    assert divergence["there"].startswith("boats")


def test_reordered_tools_are_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"), tools=[tool("read"), tool("write"), tool("list")])
    agent.ask(user("Hello"), tools=[tool("read"), tool("list"), tool("write")])

    found = agent.explained()

    assert (found["reason"], found["divergence"]["tool"]) == ("tool_order", 1)
    assert found["divergence"]["place"] == "tool 2 (list)"


def test_changed_tool_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"), tools=[tool("read")])
    agent.ask(user("Hello"), tools=[tool("read"), tool("write")])

    assert agent.explained()["reason"] == "tools_changed"


def test_option_that_changes_only_the_end_of_the_prompt_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"))
    # The template closes the thinking where the earlier answer began.
    agent.ask(user("Hello"), chat_template_kwargs={"enable_thinking": False})

    found = agent.explained()

    assert (found["reason"], found["divergence"]["part"]) == ("options_changed", "thinking")


def test_message_rendered_differently_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    thought = {"role": "assistant", "content": "Well.", "reasoning_content": "I think of the sea."}
    agent.ask(user("Hello"), thought)
    # A thought of an earlier turn is not shown any more.
    agent.ask(user("Hello"), thought, user("And then?"))

    found = agent.explained()

    assert (found["reason"], found["divergence"]["place"]) == ("template_rewrite", "message 3 (assistant)")


def test_changing_header_is_named(small: HostedServer) -> None:
    agent = Agent(small)
    rest = agent.system
    for number in (11, 22):
        agent.system = (
            f"x-anthropic-billing-header: cc_version=2.1.36; cc_entrypoint=cli; cch=00{number};\n{rest}"
        )
        agent.ask(user("Hello"))

    found = agent.explained()

    assert (found["reason"], found["divergence"]["message"]) == ("volatile_header", 0)


def test_evicted_prefix_is_named(small: HostedServer) -> None:
    agent, others = Agent(small), [Agent(small) for _ in range(4)]
    agent.ask(user("Hello"))
    for other in others:
        other.ask(user("Hello"))
    agent.ask(user("Hello"))

    assert agent.explained()["reason"] == "evicted"


def test_expired_prefix_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"), ttl=0.2)
    time.sleep(0.4)
    agent.ask(user("Hello"))

    assert agent.explained()["reason"] == "expired"


def test_cleared_prefix_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"))
    httpx.post(f"{server.url}/cache/clear").raise_for_status()
    agent.ask(user("Hello"))

    assert agent.explained()["reason"] == "cleared"


def test_prefix_that_was_never_stored_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"), ttl=0)
    agent.ask(user("Hello"))

    assert agent.explained()["reason"] == "not_kept"


def test_request_with_the_cache_off_is_neither_kept_nor_compared(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"), cache_mode="off")
    off = agent.explained()
    agent.ask(user("Hello"))

    assert off["reason"] == "cache_off"
    assert off["sentence"].endswith("so its text is not kept and not compared")
    assert off["num_prompt_tokens"] > 0
    assert agent.explained()["compared_with"] != off["number"]


def test_missing_layer_checkpoint_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user(PROSE * 3), model=HYBRID.name)
    agent.ask(user(PROSE * 2 + "And now for something else."), model=HYBRID.name)

    found = agent.explained()

    assert found["reason"] == "no_checkpoint"
    assert found["num_cached_tokens"] < found["divergence"]["position"]
    assert found["divergence"]["place"] == "message 2 (user)"


def test_dry_run_explains_without_side_effects(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Tell me of boats"))
    sent = {"protocol": "chat", "body": agent.body(user("Tell me of hills"))}

    found, again = (
        httpx.post(f"{server.url}/cache/explain", json=sent).raise_for_status().json()["explanations"][0]
        for _ in range(2)
    )

    assert (found["reason"], found["divergence"]["here"][:5]) == ("message_changed", "hills")
    assert again["num_cached_tokens"] == found["num_cached_tokens"] > 0


def test_request_is_compared_within_its_session(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Tell me of boats"), session_id="one")
    number = agent.explained()["number"]
    agent.ask(user("Tell me of hills"), session_id="two")
    agent.ask(user("Tell me of hens"), session_id="one")

    assert agent.explained()["compared_with"] == number


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("GET", "/cache?limit=0", None, "limit must be a number from 1 to 500"),
        ("GET", "/cache?offset=x", None, "offset must be a number"),
        ("GET", "/cache/explain?last=99", None, "last must be a number from 1 to 64"),
        ("POST", "/cache/pin", {"keys": []}, "keys is empty"),
        ("POST", "/cache/pin", {"keys": ["xyz"]}, "keys"),
        ("POST", "/cache/explain", {"protocol": "smoke", "body": {}}, "protocol"),
        ("POST", "/cache/explain", {"protocol": "chat", "body": {"model": "tiny"}}, "messages"),
    ],
)
def test_invalid_questions_are_refused(
    server: HostedServer, method: str, path: str, body: Any, words: str
) -> None:
    answer = httpx.request(method, f"{server.url}{path}", json=body)

    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_prompt_of_another_model_is_named(server: HostedServer) -> None:
    agent = Agent(server)
    agent.ask(user("Hello"))
    agent.ask(user("Hello"), model=OTHER.name)

    found = agent.explained()

    assert (found["reason"], found["model"]) == ("namespace_changed", OTHER.name)
    assert "sent the same to tiny" in found["sentence"]


def test_retokenized_text_is_named(server: HostedServer) -> None:
    # A prompt of the raw protocol is cut where the caller cuts it.
    text = "<|im_start|>user\n" + PROSE
    ids = _token_ids(text)
    agent = Agent(server)
    for prompt in (text, [*_letters(ids)]):
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 4}
        httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).raise_for_status()

    found = agent.explained()

    assert found["reason"] == "bpe_seam"
    assert found["divergence"]["here"][:3] == found["divergence"]["there"][:3]


def _token_ids(text: str) -> list[int]:
    ids: list[int] = _tokenizer().encode(text, add_special_tokens=False).ids
    return ids


def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tiny_models.model("endless") / "tokenizer.json"))


def _letters(ids: list[int]) -> list[int]:
    """The same text with one longer token cut into letters.

    The token is in the second half.
    """
    tokenizer = _tokenizer()
    for place in range(len(ids) // 2, len(ids)):
        letters = tokenizer.decode([ids[place]])
        apart = [
            token for letter in letters for token in tokenizer.encode(letter, add_special_tokens=False).ids
        ]
        if letters.isalpha() and letters.isascii() and len(apart) == len(letters) > 1:
            return [*ids[:place], *apart, *ids[place + 1 :]]
    raise AssertionError("every token is one letter")
