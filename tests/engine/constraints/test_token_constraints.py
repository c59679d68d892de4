"""Token constraints on token ids: grammar, thinking budget, repetition penalty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from mlxctl.engine.constraints import TokenConstraint
from mlxctl.engine.constraints.matcher import GrammarMatcher
from mlxctl.engine.constraints.repetition import RepetitionPenalty
from mlxctl.engine.constraints.thinking_budget import ThinkingBudget
from mlxctl.ir import Repetition, ThinkingLimit
from tests import tiny_models

OPENER, CLOSER, NEWLINE, WORD = 1, 2, 3, 9
WIDTH = 512


def limited(max_tokens: int, *, is_open: bool = True) -> ThinkingBudget:
    limit = ThinkingLimit(
        max_tokens=max_tokens,
        is_open=is_open,
        opener_ids=(OPENER,),
        closer_ids=(CLOSER,),
        closing_ids=(NEWLINE, CLOSER, NEWLINE),
    )
    return ThinkingBudget(limit)


def generate(part: ThinkingBudget, preferred_ids: Sequence[int]) -> list[int]:
    """Return the output of a row whose model prefers these tokens.

    The constraint is called as the engine does, one token behind.
    """
    got: list[int] = []
    num_reported = 0
    for position, preferred_id in enumerate(preferred_ids):
        last = position if part.needs_last_token(position) else max(0, position - 1)
        for token in got[num_reported:last]:
            part.consume(token)
        num_reported = max(num_reported, last)
        forced = part.forced_token(position)
        got.append(preferred_id if forced is None else forced)
    return got


def test_thinking_is_closed_at_its_limit() -> None:
    assert generate(limited(3), [WORD] * 8) == [WORD, WORD, WORD, NEWLINE, CLOSER, NEWLINE, WORD, WORD]
    assert generate(limited(0), [WORD] * 4) == [NEWLINE, CLOSER, NEWLINE, WORD]


def test_thinking_that_ends_early_is_unchanged() -> None:
    for num in range(3):
        preferred_ids = [WORD] * num + [CLOSER] + [WORD] * 6
        assert generate(limited(3), preferred_ids) == preferred_ids


def test_thinking_tokens_are_counted_from_opening_marker() -> None:
    preferred_ids = [NEWLINE, OPENER, *[WORD] * 6]
    assert generate(limited(2, is_open=False), preferred_ids)[2:7] == [WORD, WORD, NEWLINE, CLOSER, NEWLINE]


def test_output_without_thinking_is_unchanged() -> None:
    preferred_ids = [WORD] * 12
    part = limited(2, is_open=False)
    assert generate(part, preferred_ids) == preferred_ids
    assert not part.needs_last_token(12)


def test_last_token_is_needed_only_near_the_limit() -> None:
    part = limited(10)
    assert [part.needs_last_token(position) for position in (0, 9, 10)] == [False, False, True]


def naive_penalties(
    tokens: Sequence[int], repetition: Repetition, breakers: frozenset[int]
) -> dict[int, float]:
    """Compute the DRY penalty by its definition."""
    found: dict[int, float] = {}
    tokens = tokens[-repetition.num_last :]
    for place in range(len(tokens) - 1):
        length = 0
        while (
            length <= place
            and tokens[place - length] == tokens[-1 - length]
            and tokens[place - length] not in breakers
        ):
            length += 1
        following = tokens[place + 1]
        if length >= repetition.allowed_length and following not in breakers:
            penalty = repetition.multiplier * repetition.base ** (length - repetition.allowed_length)
            found[following] = max(found.get(following, 0.0), penalty)
    return found


@given(
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    num_prompt=st.integers(0, 60),
    allowed=st.integers(1, 4),
    num_last=st.integers(2, 40),
    breakers=st.frozensets(st.integers(0, 3), max_size=1),
)
def test_repetition_penalty_equals_definition(
    tokens: list[int], num_prompt: int, allowed: int, num_last: int, breakers: frozenset[int]
) -> None:
    repetition = Repetition(multiplier=0.8, base=1.5, allowed_length=allowed, num_last=num_last)
    part = RepetitionPenalty(repetition, breaker_ids=breakers, prompt=tokens[:num_prompt])
    for token in tokens[num_prompt:]:
        part.consume(token)
    assert part.penalties() == pytest.approx(naive_penalties(tokens, repetition, breakers))


@pytest.fixture(scope="module")
def tokenizer() -> LLTokenizer:
    return LLTokenizer(
        (tiny_models.model("qwen3") / "tokenizer.json").read_text(), n_vocab=WIDTH, eos_token=[0]
    )


def allowed_ids(constraint: TokenConstraint) -> set[int]:
    words = np.zeros(WIDTH // 32, dtype=np.int32)
    constraint.fill_mask(words)
    return set(np.nonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[0].tolist())


def test_grammar_allows_continuations_and_stop_when_complete(
    tokenizer: LLTokenizer,
) -> None:
    constraint = TokenConstraint(grammar=GrammarMatcher(tokenizer, LLMatcher.grammar_from_regex("ab?")))
    (first,) = tokenizer.tokenize_str("a")
    assert first in allowed_ids(constraint)
    assert 0 not in allowed_ids(constraint)

    constraint.consume([first])

    (second,) = tokenizer.tokenize_str("b")
    assert allowed_ids(constraint) == {0, second}
    assert not constraint.failure


def test_constraint_consumes_each_token_once(tokenizer: LLTokenizer) -> None:
    constraint = TokenConstraint(grammar=GrammarMatcher(tokenizer, LLMatcher.grammar_from_regex("aaa")))
    (a,) = tokenizer.tokenize_str("a")
    constraint.consume([], [a])
    constraint.consume([a], [a])
    constraint.consume([a, a])
    assert allowed_ids(constraint) == {a}


def test_draft_is_masked_up_to_its_first_forbidden_token(
    tokenizer: LLTokenizer, capfd: pytest.CaptureFixture[str]
) -> None:
    matcher = GrammarMatcher(tokenizer, LLMatcher.grammar_from_regex("ab[cd]"))
    a, b, c = (tokenizer.tokenize_str(letter)[0] for letter in "abc")

    def mask() -> "np.ndarray[Any, np.dtype[np.int32]]":
        words = np.zeros((WIDTH + 31) // 32, dtype=np.int32)
        matcher.fill_mask(words)
        return words

    before = mask()
    words = np.zeros((4, len(before)), dtype=np.int32)
    assert matcher.mask_draft([a, b, a, c], words) == 2
    assert (mask() == before).all()
    for token, expected in zip((a, b), words, strict=False):
        matcher.consume(token)
        assert (mask() == expected).all()
    assert (matcher.failure, capfd.readouterr().err) == ("", "")


def test_disallowed_token_and_invalid_grammar_fail(
    tokenizer: LLTokenizer,
) -> None:
    constraint = TokenConstraint(grammar=GrammarMatcher(tokenizer, LLMatcher.grammar_from_regex("a")))
    constraint.consume(tokenizer.tokenize_str("b"))
    assert "not allowed" in constraint.failure
    assert GrammarMatcher(tokenizer, "start: nowhere").failure
    assert GrammarMatcher(tokenizer, LLMatcher.grammar_from_regex("a"), start="b").failure
