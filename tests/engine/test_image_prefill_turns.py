"""Prefill slices of prompts with images: whole images are not split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.batch import RowResult
from mlxctl.engine.scheduling.model_queue import ModelCosts
from mlxctl.engine.scheduling.scheduler import Scheduler
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import ProcessedImage, SamplingParams
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import pack


def prompt(
    *spans: tuple[int, int], num_tokens: int = 100, is_whole: bool = True, stops: tuple[int, ...] = ()
) -> Sequence:
    """One with images from and to these places."""
    images = [
        ProcessedImage.of(
            b"", tiles=((1, 1),), start=start, num_tokens=end - start, num_positions=2, is_whole=is_whole
        )
        for start, end in spans
    ]
    sequence = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=pack(range(num_tokens)),
        sampling=SamplingParams(),
        stop_token_ids=frozenset(),
        max_tokens=9,
        images=tuple(images),
    )
    for stop in stops:
        sequence.prefill.add_checkpoint(stop)
    return sequence


@pytest.mark.parametrize(
    ("num_computed", "quota", "num_tokens"),
    [
        (0, 5, 5),  # words before it
        (0, 10, 10),  # up to where it begins
        (0, 15, 10),  # would end within it: what stands before it is read first
        (10, 4, 20),  # it begins here: all of it, however short the slice was to be
        (17, 4, 13),  # known up to the middle: all that is left of it
        (10, 25, 25),  # it, and words behind it
        (30, 40, 40),
    ],
)
def test_bidirectional_image_is_prefilled_in_one_slice(
    num_computed: int, quota: int, num_tokens: int
) -> None:
    sequence = prompt((10, 30))
    sequence.prefill.finish_pass(num_computed)
    assert sequence.pass_tokens(quota) == num_tokens


def test_causal_image_may_be_split() -> None:
    assert prompt((10, 30), is_whole=False).pass_tokens(15) == 15


@given(
    quotas=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    stops=st.lists(st.integers(1, 98), max_size=3),
)
def test_slices_never_split_a_bidirectional_image(quotas: list[int], stops: list[int]) -> None:
    sequence = prompt((3, 19), (19, 35), (60, 76), stops=tuple(sorted(stops)))
    ends = []
    while sequence.prefill.num_remaining_tokens:
        sequence.prefill.finish_pass(sequence.pass_tokens(quotas[len(ends) % len(quotas)]))
        ends.append(sequence.prefill.num_computed_tokens)
    assert ends[-1] == 99
    assert not any(image.start < end < image.end for end in ends for image in sequence.images)


@pytest.mark.parametrize(
    ("num_cached", "num_computed", "num_tokens", "encodes_image"),
    [
        (0, 0, 10, False),
        (0, 0, 11, True),
        (0, 10, 5, True),
        (0, 15, 5, False),  # looked at before
        (15, 15, 5, True),  # known up to here, so never looked at
        (30, 30, 5, False),
    ],
)
def test_image_is_encoded_where_its_prefill_starts(
    num_cached: int, num_computed: int, num_tokens: int, encodes_image: bool
) -> None:
    sequence = prompt((10, 30), is_whole=False)
    sequence.prefill.restore(num_cached)
    sequence.prefill.finish_pass(num_computed - num_cached)
    assert sequence.encodes_image(num_tokens) is encodes_image


def test_image_encoding_does_not_shorten_later_slices() -> None:
    scheduler = Scheduler(SchedulerPolicy(max_rows=4), prefill_turn_seconds=0.5, prefill_pass_max_tokens=64)
    scheduler.open_model("m", ModelCosts(weights_bytes=1, kv_bytes_per_token=1))
    scheduler.add(prompt((64, 80), num_tokens=400, is_whole=False))
    sizes = []
    for seconds in (0.0, 0.1, 9.0, 0.1):
        batch = scheduler.next_batch(now=0.0, available_bytes=1 << 40)
        assert batch is not None
        sizes.append(batch.num_tokens)
        results = [RowResult(sequence=batch.prompts[0])] if batch.phase == "restore" else []
        scheduler.settle(batch, results, seconds=seconds, now=0.0)
    assert sizes == [0, 57, 57, 57]
