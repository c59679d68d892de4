"""A real model generates what mlx-lm generates.

In batches, alone, from the cache, continued, and after a restart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_models.prompts import PROMPTS
from tests.real_models.reference import NUM_TOKENS, NUM_TOP, ReferenceAnswer, reference_answers
from tests.server.process import ServerProcess, serving

_PROMPTS = {
    kind: PROMPTS[kind]
    for kind in (
        "capital", "yes or no", "one word", "Python", "Rust", "SQL", "bug", "numbered list", "table",
        "French", "Japanese", "Russian", "emoji", "JSON", "poem", "document",
    )
}  # fmt: skip
_ROWS = 8
# Holds for all tokens in float32 on the CPU, where sums have another order.
_LOGPROB_TOLERANCE = 5e-5


@pytest.fixture(scope="module")
def reference(real_model: Path) -> dict[str, ReferenceAnswer]:
    return reference_answers(real_model, _PROMPTS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def server(real_model: Path, cache: Path) -> Iterator[ServerProcess]:
    with serving(real_model, "--cache-dir", str(cache)) as running:
        yield running


@dataclass(frozen=True)
class Generated:
    """The choices of one request, in the order of its prompts."""

    choices: list[dict[str, Any]]
    num_cached: int

    @property
    def token_ids(self) -> list[list[int]]:
        return [choice["token_ids"] for choice in self.choices]


def generate(
    server: ServerProcess, answers: Sequence[ReferenceAnswer], *, num_given: int = 0, **fields: Any
) -> Generated:
    """Continue the prompts in one batch.

    Each has the first `num_given` tokens of its answer.
    """
    body = {
        "model": "tiny",
        "prompt": [answer.prompt_ids + answer.token_ids[:num_given] for answer in answers],
        "max_tokens": NUM_TOKENS - num_given,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
        **fields,
    }
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=600).raise_for_status().json()
    return Generated(answer["choices"], answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def batches(answers: Sequence[ReferenceAnswer]) -> list[Sequence[ReferenceAnswer]]:
    return [answers[start : start + _ROWS] for start in range(0, len(answers), _ROWS)]


@pytest.fixture(scope="module")
def cold(server: ServerProcess, reference: dict[str, ReferenceAnswer]) -> dict[str, dict[str, Any]]:
    """What the server generates for new prompts, by kind."""
    fields = {"logprobs": NUM_TOP, "return_tokens_as_token_ids": True}
    whole = [generate(server, batch, **fields) for batch in batches(list(reference.values()))]
    choices = [choice for generated in whole for choice in generated.choices]
    return dict(zip(reference, choices, strict=True))


def test_chat_template_gives_the_prompts_of_mlx_lm(
    server: ServerProcess, reference: dict[str, ReferenceAnswer]
) -> None:
    for kind, text in _PROMPTS.items():
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
        tokens = httpx.post(f"{server.url}/tokenize", json=body).raise_for_status().json()["tokens"]
        assert tokens == reference[kind].prompt_ids, kind


@pytest.mark.parametrize("kind", _PROMPTS)
def test_batched_answer_is_that_of_mlx_lm(
    cold: dict[str, dict[str, Any]], reference: dict[str, ReferenceAnswer], kind: str
) -> None:
    assert cold[kind]["token_ids"] == reference[kind].token_ids


@pytest.mark.parametrize("kind", _PROMPTS)
def test_log_probabilities_are_those_of_the_logits(
    cold: dict[str, dict[str, Any]], reference: dict[str, ReferenceAnswer], kind: str
) -> None:
    reported, expected = cold[kind]["logprobs"], reference[kind]
    top = [[int(name.removeprefix("token_id:")) for name in ranked] for ranked in reported["top_logprobs"]]
    assert reported["token_logprobs"] == pytest.approx(expected.logprobs, abs=_LOGPROB_TOLERANCE)
    assert top == expected.top


@pytest.mark.parametrize("kind", ["capital", "Python", "Japanese"])
def test_answer_alone_is_that_of_mlx_lm(
    server: ServerProcess, reference: dict[str, ReferenceAnswer], kind: str
) -> None:
    alone = generate(server, [reference[kind]], cache_salt=f"alone {kind}")
    assert alone.num_cached == 0
    assert alone.token_ids == [reference[kind].token_ids]


@pytest.mark.usefixtures("cold")
def test_answers_to_cached_prompts_are_those_of_mlx_lm(
    server: ServerProcess, reference: dict[str, ReferenceAnswer]
) -> None:
    for batch in batches(list(reference.values())):
        repeated = generate(server, batch)
        assert repeated.num_cached >= sum(len(answer.prompt_ids) - 1 for answer in batch)
        assert repeated.token_ids == [answer.token_ids for answer in batch]


@pytest.mark.usefixtures("cold")
def test_cached_answers_are_continued_as_by_mlx_lm(
    server: ServerProcess, reference: dict[str, ReferenceAnswer]
) -> None:
    num_given = NUM_TOKENS // 2
    for batch in batches(list(reference.values())[::2]):
        continued = generate(server, batch, num_given=num_given)
        assert continued.num_cached >= sum(len(answer.prompt_ids) for answer in batch)
        assert continued.token_ids == [answer.token_ids[num_given:] for answer in batch]


@pytest.mark.usefixtures("cold")
def test_answers_from_the_disk_after_a_restart_are_those_of_mlx_lm(
    server: ServerProcess, real_model: Path, cache: Path, reference: dict[str, ReferenceAnswer]
) -> None:
    answers = list(reference.values())[-8:]
    assert server.stop() == 0
    with serving(real_model, "--cache-dir", str(cache)) as restarted:
        restored = generate(restarted, answers)
    assert restored.num_cached >= sum(len(answer.prompt_ids) for answer in answers) // 2
    assert restored.token_ids == [answer.token_ids for answer in answers]
