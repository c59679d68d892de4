"""Segments of a transcribed window, and the start of the next window."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.transcription.segmentation import SplitWindow, WindowSegment, split_window
from tests.engine.whisper_vocabulary import END, FIRST_TIME, NUM_TOKENS, TOKENS, WINDOW_SAMPLES

WINDOW = WINDOW_SAMPLES


def at(seconds: float) -> int:
    """Return the token of a time."""
    return FIRST_TIME + round(seconds * 50)


def segment(start: float, end: float, *words: int, timed: tuple[int, ...] = ()) -> WindowSegment:
    """A segment, by default between both of its times."""
    return WindowSegment(
        start=round(start * 16_000),
        end=round(end * 16_000),
        token_ids=words,
        timed_ids=timed or (at(start), *words, at(end)),
    )


def test_one_complete_segment_consumes_the_window() -> None:
    token_ids = [at(0.2), 1, 2, at(1.5)]
    assert split_window(token_ids, TOKENS, num_samples=WINDOW) == SplitWindow(
        segments=(segment(0.2, 1.5, 1, 2),), advance=WINDOW
    )


def test_two_adjacent_times_separate_segments() -> None:
    token_ids = [at(0), 1, at(0.5), at(0.6), 2, at(1.5)]
    expected = SplitWindow(segments=(segment(0, 0.5, 1), segment(0.6, 1.5, 2)), advance=WINDOW)
    assert split_window(token_ids, TOKENS, num_samples=WINDOW) == expected


def test_unfinished_segment_starts_the_next_window() -> None:
    token_ids = [at(0), 1, at(1.2), at(1.2), 2]
    expected = SplitWindow(segments=(segment(0, 1.2, 1),), advance=round(1.2 * 16_000))
    assert split_window(token_ids, TOKENS, num_samples=WINDOW) == expected


def test_text_without_end_time_fills_the_window() -> None:
    opened = [at(0.4), 1, 2]
    expected = segment(0.4, 2, 1, 2, timed=tuple(opened))
    assert split_window(opened, TOKENS, num_samples=WINDOW).segments == (expected,)
    assert split_window([1], TOKENS, num_samples=WINDOW).segments == (segment(0, 2, 1, timed=(1,)),)


def test_empty_text_gives_no_segment() -> None:
    assert split_window([], TOKENS, num_samples=WINDOW) == SplitWindow(segments=(), advance=WINDOW)
    assert split_window([at(0), at(1)], TOKENS, num_samples=WINDOW).segments == ()


def test_special_tokens_are_not_text() -> None:
    assert split_window([at(0), 1, END + 1, at(1)], TOKENS, num_samples=WINDOW).segments == (
        segment(0, 1, 1),
    )


@given(st.lists(st.integers(0, NUM_TOKENS - 1), max_size=20), st.integers(1, WINDOW))
def test_any_tokens_advance_and_stay_in_the_window(token_ids: list[int], num_samples: int) -> None:
    split = split_window(token_ids, TOKENS, num_samples=num_samples)
    assert min(16_000, num_samples) <= split.advance <= num_samples
    for part in split.segments:
        assert 0 <= part.start < part.end <= num_samples
        assert part.token_ids
