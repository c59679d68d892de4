"""Limits of rows, memory and long prompts for waiting prompts."""

from .test_scheduler import COSTS, make_scheduler, make_sequence, run_step, run_until_idle


def test_at_most_max_rows_hold_a_cache() -> None:
    scheduler = make_scheduler(max_rows=2)
    for sequence_id in range(5):
        scheduler.add(make_sequence(sequence_id, max_tokens=4))

    most = 0
    while scheduler.has_work:
        run_step(scheduler)
        counts = scheduler.counts()
        most = max(most, counts.num_prefilling + counts.num_decoding)

    assert most == 2


def test_prompt_without_memory_waits_for_running_rows() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence(1, max_tokens=2))
    run_step(scheduler)
    run_step(scheduler)
    scheduler.add(make_sequence(2, num_tokens=500))

    phases = [scheduler.next_batch(now=0, available_bytes=400).phase for _ in range(3)]

    assert phases == ["decode"] * 3


def test_memory_of_an_admitted_prompt_is_not_given_to_another() -> None:
    scheduler = make_scheduler()
    for number in (1, 2):
        scheduler.add(make_sequence(number, num_tokens=100))

    batch = scheduler.next_batch(now=0.0, available_bytes=150)

    # Nothing is allocated yet: the first one will need 100 of the bytes.
    assert batch is not None
    assert [row.sequence_id for row in batch.prompts] == [1]


def test_at_most_four_long_prompts_of_equal_size_are_begun() -> None:
    scheduler = make_scheduler(max_rows=32)
    for number in range(6):
        scheduler.add(make_sequence(number, num_tokens=2000))
    scheduler.add(make_sequence(6, num_tokens=20))

    for _ in range(10):
        run_step(scheduler)

    waiting = [row.sequence_id for row in scheduler.sequences if row.prefill.needs_restore]
    assert waiting == [4, 5]


def test_model_without_memory_is_skipped_until_some_is_freed() -> None:
    scheduler = make_scheduler(max_rows=1)
    scheduler.open_model("n", COSTS)
    scheduler.add(make_sequence(1, max_tokens=3))
    other = make_sequence(2, max_tokens=3)
    other.model = "n"
    run_step(scheduler)
    scheduler.add(other)

    models = [batch.model for batch in run_until_idle(scheduler)]

    assert models == ["m"] * 5 + ["n"] * 6
