"""Generated prompts: equal for all servers, new in every run.

Each run draws a `nonce` and starts every text with a digest of it, so that no server can answer from its
cache. The remaining text depends on the seed alone.
"""

import random
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

_PROSE = """
the server reads each request once and keeps what it learned for later while a small engine turns paper into
plain words about rivers gardens winter trains music copper bread windows maps letters stones morning
harbour and quiet machines that count time because anyone asked whether green light travels faster than an
old story told twice under seven bridges near a long road
"""
_WORDS = _PROSE.split()
# Share of numbers among the words, as in code and logs.
_NUMBERS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Generates texts by key, deterministic within a run.

    `tokens_per_word` was measured on the first server.
    """

    seed: int
    nonce: str
    tokens_per_word: float = 1.3

    def text(self, key: str, num_tokens: int) -> str:
        """Return about `num_tokens` of text with a prefix unique to the key."""
        digest = sha256(f"{self.nonce} {self.seed} {key}".encode()).hexdigest()[:12]
        return f"{digest} {self.prose(key, num_tokens)}"

    def prose(self, key: str, num_tokens: int) -> str:
        """Return about `num_tokens` of text from seed and key alone."""
        source = random.Random(f"{self.seed} {key}")  # noqa: S311
        num_words = max(1, round(num_tokens / self.tokens_per_word))
        return " ".join(self._word(source) for _ in range(num_words))

    @staticmethod
    def _word(source: random.Random) -> str:
        return str(source.randrange(1000)) if source.random() < _NUMBERS else source.choice(_WORDS)


def user(text: str) -> list[dict[str, Any]]:
    """Return messages with one question."""
    return [{"role": "user", "content": text}]
