"""What was written of a window, divided by its times, and where the next window begins."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.inference.transcription.segmentation import AudioSegment, Division, divide
from tests.engine.whisper_vocabulary import END, FIRST_TIME, NUM_TOKENS, RECIPE

WINDOW = RECIPE.window_samples


def at(seconds: float) -> int:
    """The token of a time."""
    return FIRST_TIME + round(seconds * 50)


def stretch(start: float, end: float, *words: int) -> AudioSegment:
    return AudioSegment(start=round(start * 16_000), end=round(end * 16_000), token_ids=words)


def test_one_segment_that_ends_in_the_window_is_all_that_was_in_it() -> None:
    written = [at(0.2), 1, 2, at(1.5)]
    assert divide(written, RECIPE, num_samples=WINDOW) == Division(
        stretches=(stretch(0.2, 1.5, 1, 2),), advance=WINDOW
    )


def test_two_times_part_two_segments() -> None:
    written = [at(0), 1, at(0.5), at(0.6), 2, at(1.5)]
    expected = Division(stretches=(stretch(0, 0.5, 1), stretch(0.6, 1.5, 2)), advance=WINDOW)
    assert divide(written, RECIPE, num_samples=WINDOW) == expected


def test_what_does_not_end_in_the_window_is_heard_again_from_its_beginning() -> None:
    written = [at(0), 1, at(1.2), at(1.2), 2]
    expected = Division(stretches=(stretch(0, 1.2, 1),), advance=round(1.2 * 16_000))
    assert divide(written, RECIPE, num_samples=WINDOW) == expected


def test_words_without_an_end_fill_the_window() -> None:
    assert divide([at(0.4), 1, 2], RECIPE, num_samples=WINDOW).stretches == (stretch(0.4, 2, 1, 2),)
    assert divide([1], RECIPE, num_samples=WINDOW).stretches == (stretch(0, 2, 1),)


def test_nothing_written_is_no_segment() -> None:
    assert divide([], RECIPE, num_samples=WINDOW) == Division(stretches=(), advance=WINDOW)
    assert divide([at(0), at(1)], RECIPE, num_samples=WINDOW).stretches == ()


def test_marks_are_no_words() -> None:
    assert divide([at(0), 1, END + 1, at(1)], RECIPE, num_samples=WINDOW).stretches == (stretch(0, 1, 1),)


@given(st.lists(st.integers(0, NUM_TOKENS - 1), max_size=20), st.integers(1, WINDOW))
def test_whatever_is_written_it_goes_forward_and_stays_in_the_window(
    written: list[int], num_samples: int
) -> None:
    division = divide(written, RECIPE, num_samples=num_samples)
    assert min(16_000, num_samples) <= division.advance <= num_samples
    for part in division.stretches:
        assert 0 <= part.start < part.end <= num_samples
        assert part.token_ids
