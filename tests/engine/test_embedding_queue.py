"""The embedding queue takes every text once, in bounded slices, in turns."""

from array import array
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.embedding.queue import EmbeddingJob, EmbeddingQueue

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=20)


def job(job_id: int, lengths: list[int], model: str = "m", *, can_be_split: bool = True) -> EmbeddingJob:
    texts = [array("I", range(length)) for length in lengths]
    return EmbeddingJob(job_id=job_id, model=model, texts=texts, can_be_split=can_be_split)


@given(
    jobs=st.lists(LENGTHS, min_size=1, max_size=4),
    sizes=st.lists(st.integers(16, 200), min_size=1, max_size=8),
)
def test_every_token_is_taken_once_and_in_order(jobs: list[list[int]], sizes: list[int]) -> None:
    queue = EmbeddingQueue()
    for number, lengths in enumerate(jobs):
        queue.add(job(number, lengths))
    read: dict[tuple[int, int], int] = defaultdict(int)
    turn = 0
    while queue.has_work:
        size = sizes[turn % len(sizes)]
        part = queue.take(max_tokens=size)
        assert part.num_padded_tokens <= size
        for place in part.places:
            assert read[part.job.job_id, place] == part.start
            read[part.job.job_id, place] += min(part.num_tokens, len(part.job.texts[place]) - part.start)
        turn += 1
    assert read == {
        (number, place): length for number, lengths in enumerate(jobs) for place, length in enumerate(lengths)
    }


def test_texts_of_similar_length_share_a_slice() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [50, 2, 50, 3]))
    assert [queue.take(max_tokens=100).places for _ in range(2)] == [(1, 3), (2, 0)]


def test_text_longer_than_a_slice_is_split() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [250]))
    parts = [queue.take(max_tokens=100) for _ in range(3)]
    assert [(part.start, part.num_tokens, part.is_last_of_text) for part in parts] == [
        (0, 100, False), (100, 100, False), (200, 50, True),
    ]  # fmt: skip
    assert not queue.has_work


def test_jobs_take_turns() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [500] * 10))
    queue.add(job(2, [5]))
    assert [queue.take(max_tokens=100).job.job_id for _ in range(3)] == [1, 2, 1]


def test_indivisible_texts_are_taken_whole() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [250, 60, 30], can_be_split=False))
    parts = [queue.take(max_tokens=100) for _ in range(3)]
    assert [(part.places, part.num_tokens, part.is_last_of_text) for part in parts] == [
        ((2,), 30, True), ((1,), 60, True), ((0,), 250, True),
    ]  # fmt: skip
    assert not queue.has_work


@pytest.mark.parametrize("lengths", [[250], [250, 260]])
def test_unfinished_slice_has_the_next_turn(lengths: list[int]) -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, lengths, can_be_split=False))
    queue.add(job(2, [5]))
    part = queue.take(max_tokens=100)
    queue.put_back(part)
    assert queue.next_model == "m"
    assert queue.take(max_tokens=100) is part
    assert queue.take(max_tokens=100).job.job_id == 2


def test_dropping_a_job_drops_its_unfinished_slice() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [250], can_be_split=False))
    queue.put_back(queue.take(max_tokens=100))
    assert queue.has_work_for("m")
    assert [dropped.job_id for dropped in queue.drop([1])] == [1]
    assert not queue.has_work


def test_dropped_job_is_never_taken() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [5]))
    queue.add(job(2, [5], model="other"))
    assert [dropped.job_id for dropped in queue.drop([1, 7])] == [1]
    assert not queue.has_work_for("m")
    assert queue.next_model == "other"
