"""Which texts are embedded next: every one of them once, in bounded slices, and jobs take turns."""

from array import array
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.embedding.queue import EmbeddingJob, EmbeddingQueue

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=20)


def job(job_id: int, lengths: list[int], model: str = "m") -> EmbeddingJob:
    return EmbeddingJob(job_id=job_id, model=model, texts=[array("I", range(length)) for length in lengths])


@given(jobs=st.lists(LENGTHS, min_size=1, max_size=4), sizes=st.lists(st.integers(16, 200), min_size=1, max_size=8))
def test_every_token_of_every_text_is_read_once_and_in_order(jobs: list[list[int]], sizes: list[int]) -> None:
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
    assert read == {(number, place): length for number, lengths in enumerate(jobs) for place, length in enumerate(lengths)}


def test_texts_of_like_length_share_a_slice() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [50, 2, 50, 3]))
    assert [queue.take(max_tokens=100).places for _ in range(2)] == [(1, 3), (2, 0)]


def test_a_text_longer_than_a_slice_is_read_alone_and_in_parts() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [250]))
    parts = [queue.take(max_tokens=100) for _ in range(3)]
    assert [(part.start, part.num_tokens, part.is_last_of_text) for part in parts] == [
        (0, 100, False), (100, 100, False), (200, 50, True),
    ]  # fmt: skip
    assert not queue.has_work


def test_a_short_job_does_not_wait_for_a_long_one() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [500] * 10))
    queue.add(job(2, [5]))
    assert [queue.take(max_tokens=100).job.job_id for _ in range(3)] == [1, 2, 1]


def test_a_job_that_was_dropped_is_never_taken() -> None:
    queue = EmbeddingQueue()
    queue.add(job(1, [5]))
    queue.add(job(2, [5], model="other"))
    assert [dropped.job_id for dropped in queue.drop([1, 7])] == [1]
    assert not queue.has_work_for("m")
    assert queue.next_model == "other"
