"""Whisper's timestamp rules: pairs, no decreasing times, no special tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.audio.transcriber import TokenRules

from .whisper_vocabulary import END, FIRST_TIME, NUM_TOKENS, TOKENS


def allowed(written: Sequence[int], logits: Any = None) -> set[int]:
    """The tokens that may follow.

    All are equally likely, or by these logits.
    """
    logits = np.zeros(NUM_TOKENS, dtype=np.float32) if logits is None else logits
    TokenRules(TOKENS).apply(logits, written)
    return set(np.flatnonzero(np.isfinite(logits)).tolist())


def words_likely() -> Any:
    """Logits by which a word comes next if it may."""
    logits = np.zeros(NUM_TOKENS, dtype=np.float32)
    logits[: END + 1] = 20
    return logits


TIMES = set(range(FIRST_TIME, NUM_TOKENS))
WORDS = set(range(END)) - {3}


def test_transcript_starts_with_a_timestamp_in_the_first_second() -> None:
    assert allowed([], words_likely()) == set(range(FIRST_TIME, FIRST_TIME + 51))


def test_special_and_suppressed_tokens_are_masked() -> None:
    assert allowed([FIRST_TIME], words_likely()) == WORDS | {END}


def test_segment_end_is_followed_by_a_start_or_the_end() -> None:
    assert allowed([FIRST_TIME, 1, FIRST_TIME + 9], words_likely()) == {END} | set(
        range(FIRST_TIME + 9, NUM_TOKENS)
    )


def test_segment_has_a_positive_duration() -> None:
    assert min(allowed([FIRST_TIME + 9, 1, 2])) == FIRST_TIME + 10


def test_likelier_timestamps_mask_text_tokens() -> None:
    logits = np.zeros(NUM_TOKENS, dtype=np.float32)
    logits[2] = 3
    assert allowed([FIRST_TIME, 1], logits.copy()) <= TIMES
    logits[2] = 9
    assert 2 in allowed([FIRST_TIME, 1], logits)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_some_token_is_always_allowed_and_times_do_not_decrease(choices: list[int]) -> None:
    written: list[int] = []
    for choice in choices:
        dice = np.random.default_rng(choice)
        may_come = sorted(allowed(written, dice.normal(0, 3, NUM_TOKENS).astype(np.float32)))
        assert may_come
        token_id = may_come[choice % len(may_come)]
        if token_id == END:
            break
        written.append(token_id)
    times = [token_id for token_id in written if token_id >= FIRST_TIME]
    assert times == sorted(times)


@pytest.mark.parametrize("written", [[FIRST_TIME, 1], [FIRST_TIME, 1, FIRST_TIME + 3, FIRST_TIME + 3]])
def test_text_continues_within_a_segment(written: list[int]) -> None:
    assert allowed(written, words_likely()) >= WORDS
