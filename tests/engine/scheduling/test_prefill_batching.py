"""Prefill batching on ints: which prompts one pass finishes, and its checkpoints."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine.scheduling.prefill_batching import padded_tokens, prefill_passes, select_prefill_batch
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.ir import SamplingParams
from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory
from mlxctl.ir.tokens import pack

PLENTY = 1 << 30


def prompt(
    num_left: int, *, num_computed: int = 100, remaining_checkpoints: tuple[int, ...] = ()
) -> Sequence:
    """Return a prompt with `num_left` remaining tokens.

    `remaining_checkpoints` are relative to the current position.
    """
    sequence = Sequence(
        sequence_id=1,
        model="m",
        prompt_token_ids=pack(range(num_computed + num_left + 1)),
        sampling=SamplingParams(),
        stop_token_ids=frozenset(),
        max_tokens=9,
    )
    sequence.prefill.restore(num_computed, [num_computed + pause for pause in remaining_checkpoints])
    return sequence


def choose(
    ranked: list[Sequence],
    *,
    max_tokens: int = PLENTY,
    worthwhile: int = PLENTY,
    padding: int = PLENTY,
    memory: PassMemory = UNBOUNDED_PASSES,
) -> list[Sequence]:
    return select_prefill_batch(
        ranked,
        max_tokens=max_tokens,
        max_added_padding_tokens=worthwhile,
        affordable_padding_tokens=padding,
        memory=memory,
    )


def test_prompt_too_large_for_batch_is_left_out() -> None:
    short, long, other = prompt(50), prompt(101), prompt(50)

    assert choose([long, short], max_tokens=100) == [long]
    assert choose([short, long, other], max_tokens=100) == [short, other]


def test_batch_is_within_the_memory_of_a_pass() -> None:
    short, long = [prompt(50) for _ in range(3)], prompt(50, num_computed=10_000)
    memory = PassMemory(bytes_per_score=1, max_bytes=100 * 151)

    assert choose(short, memory=memory) == short[:2]
    assert choose([short[0], long, short[1]], memory=memory) == short[:2]


def test_prompt_joins_only_if_padding_is_cheaper_than_a_pass() -> None:
    short, like_it, long = prompt(90), prompt(100), prompt(120)

    assert choose([short, like_it, long], worthwhile=20) == [short, like_it]
    assert choose([short, like_it, long], worthwhile=40) == [short, like_it, long]


def test_padding_counts_toward_pass_size() -> None:
    first, longer, equal = prompt(5), prompt(20), prompt(5)

    assert choose([first, longer, equal], max_tokens=30) == [first, equal]
    assert padded_tokens([first, longer, equal]) == 60


def test_rows_of_different_decode_groups_are_not_batched() -> None:
    here, far = prompt(5, num_computed=0), prompt(5, num_computed=5000)

    assert choose([here, far], padding=4999) == [here]
    assert choose([here, far], padding=5000) == [here, far]


def test_fully_cached_prompts_are_batched_separately() -> None:
    known, short, other = prompt(0), prompt(3), prompt(0)

    assert choose([known, short, other]) == [known, other]
    assert choose([short, known, other]) == [short]


def test_prompt_with_fewer_tokens_than_passes_is_left_out() -> None:
    first, tiny = prompt(20, remaining_checkpoints=(4, 9)), prompt(2)

    assert choose([first, tiny, prompt(3)])[1:] != [tiny]
    assert tiny not in choose([first, tiny, prompt(3)])


@given(
    rows=st.lists(
        st.integers(4, 48).flatmap(
            lambda left: st.tuples(
                st.just(left), st.sets(st.integers(1, left), max_size=3).map(sorted).map(tuple)
            )
        ),
        min_size=2,
        max_size=6,
    )
)
def test_every_pass_advances_every_prompt_and_meets_checkpoints(
    rows: list[tuple[int, tuple[int, ...]]],
) -> None:
    prompts = [
        prompt(left, remaining_checkpoints=remaining_checkpoints) for left, remaining_checkpoints in rows
    ]

    ends = prefill_passes(prompts)

    for row, one in enumerate(prompts):
        places = [one.prefill.num_computed_tokens, *(places[row] for places in ends)]
        assert all(after > before for before, after in pairwise(places))
        assert set(one.prefill.remaining_checkpoints) <= set(places)
        assert places[-1] == one.num_prompt_tokens - 1
    assert len(ends) == max(len(one.prefill.remaining_checkpoints) for one in prompts)
