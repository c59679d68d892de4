"""Stored bytes of conversations that share a prefix."""

import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from tests.benchmarks.load import chat_body
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server

# Not aligned to any chunk size.
_SHARED_TOKENS = 4200
_NUM_CONVERSATIONS = 16
# Random tokens may be partial characters; several make sure that there is text.
_ANSWER_TOKENS = 4


class Prose:
    """New texts of a given number of tokens."""

    def __init__(self, model: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._generator = random.Random()

    def text(self, num_tokens: int) -> str:
        """Return a text of `num_tokens` tokens, within two."""
        words = " ".join(f"{self._generator.randrange(10**6)}" for _ in range(num_tokens // 4 + 2))
        encoding = self._tokenizer.encode(words)
        return words[: encoding.offsets[min(num_tokens, len(encoding.ids)) - 1][1]]


def stored_bytes(server: Server, model: Path) -> Iterator[Finding]:
    """Measure stored bytes of conversations with a shared prefix.

    The reference is the KV size of the prefix and of every tail, each once.
    """
    prose = Prose(model)
    for tail_tokens in (64, 512):
        shared = prose.text(_SHARED_TOKENS)
        before = _stats(server)["cache_bytes"]
        totals = [_usage(server, f"{shared} {prose.text(tail_tokens)}") for _ in range(_NUM_CONVERSATIONS)]
        stored = _stats(server)["cache_bytes"] - before
        needed = _kv_bytes_per_token(model) * (
            _SHARED_TOKENS + sum(total - _SHARED_TOKENS for total in totals)
        )
        ratio = Ratio(stored / needed, stored / needed, stored / needed)
        label = f"{_NUM_CONVERSATIONS} conversations, tails of {tail_tokens} tokens"
        name = f"{label}: stored bytes / prefix and tails"
        yield Finding(name, ratio, 1.05, False, f"{stored / 1e6:.1f} and {needed / 1e6:.1f} MB")


def _usage(server: Server, text: str) -> int:
    body = chat_body(text, max_tokens=_ANSWER_TOKENS) | {"stream": False}
    address = f"http://127.0.0.1:{server.port}/v1/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return int(json.load(answer)["usage"]["total_tokens"])


def _stats(server: Server) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/stats") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def _kv_bytes_per_token(model: Path) -> int:
    config = json.loads((model / "config.json").read_text())
    # Keys and values in float32, as in the generated models.
    return int(config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2 * 4)
