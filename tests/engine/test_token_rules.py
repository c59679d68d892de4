"""Which token may come next when speech is written down: times come in pairs, never run backwards, and marks
are never written.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.audio.transcriber import TokenRules

from .whisper_vocabulary import END, FIRST_TIME, NUM_TOKENS, RECIPE


def allowed(written: Sequence[int], logits: Any = None) -> set[int]:
    """The tokens that may follow, where all are as likely as each other, or by these logits."""
    logits = np.zeros(NUM_TOKENS, dtype=np.float32) if logits is None else logits
    TokenRules(RECIPE).apply(logits, written)
    return set(np.flatnonzero(np.isfinite(logits)).tolist())


def words_likely() -> Any:
    """Logits by which a word comes next if it may."""
    logits = np.zeros(NUM_TOKENS, dtype=np.float32)
    logits[: END + 1] = 20
    return logits


TIMES = set(range(FIRST_TIME, NUM_TOKENS))
WORDS = set(range(END)) - {3}


def test_what_is_written_begins_with_a_time_in_the_first_second() -> None:
    assert allowed([], words_likely()) == set(range(FIRST_TIME, FIRST_TIME + 51))


def test_marks_and_suppressed_tokens_are_never_written() -> None:
    assert allowed([FIRST_TIME], words_likely()) == WORDS | {END}


def test_behind_the_end_of_a_segment_comes_its_successor_or_the_end_of_all() -> None:
    assert allowed([FIRST_TIME, 1, FIRST_TIME + 9], words_likely()) == {END} | set(
        range(FIRST_TIME + 9, NUM_TOKENS)
    )


def test_a_segment_takes_time() -> None:
    assert min(allowed([FIRST_TIME + 9, 1, 2])) == FIRST_TIME + 10


def test_where_times_together_are_likelier_than_any_word_it_is_a_time() -> None:
    logits = np.zeros(NUM_TOKENS, dtype=np.float32)
    logits[2] = 3
    assert allowed([FIRST_TIME, 1], logits.copy()) <= TIMES
    logits[2] = 9
    assert 2 in allowed([FIRST_TIME, 1], logits)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_whatever_is_chosen_something_may_follow_and_times_never_run_backwards(choices: list[int]) -> None:
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
def test_in_a_segment_words_go_on(written: list[int]) -> None:
    assert allowed(written, words_likely()) >= WORDS
