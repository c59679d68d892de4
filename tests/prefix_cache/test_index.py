"""Prefix index on ints: longest match, shared payloads, eviction order."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mlxctl.ir.tokens import CALLER_BYTES, Salt, Tokens, common_tokens, namespace_within, pack
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, chunk_key, root_key
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.policy import MIN_REUSE_TOKENS

NAMESPACE = b"weights"


# Payload of tokens: one value each, with the image that it belongs to; payload of a state: its name.
Payload = tuple[object, ...] | str


def split(payload: Payload, num_tokens: int) -> tuple[Payload, Payload]:
    assert 0 < num_tokens < len(payload)
    return payload[:num_tokens], payload[num_tokens:]


def make_index(*, max_bytes: int = 1 << 30, **options: Any) -> PrefixIndex[Payload]:
    return PrefixIndex(max_bytes=max_bytes, split=split, **options)


def publish(
    index: PrefixIndex[Payload], tokens: Tokens, salts: Sequence[Salt] = (), *, namespace: bytes = NAMESPACE
) -> None:
    """Publish a whole sequence, chunk by chunk."""
    parent: Chunk[Payload] | None = None
    for start in range(0, len(tokens), CHUNK_TOKENS):
        piece = tokens[start : start + CHUNK_TOKENS]
        reused = index.reusable_prefix(namespace, parent, piece.tobytes(), salts)
        rest = tuple(tokens_with_images(tokens, salts)[start + reused.num_tokens : start + CHUNK_TOKENS])
        parent = index.publish(namespace, parent, piece.tobytes(), rest, len(rest), salts, reused=reused)
        if parent is None:
            return
    if parent is not None:
        index.touch(parent)


def tokens_with_images(tokens: Tokens, salts: Sequence[Salt]) -> list[object]:
    """Return each token with the image that it belongs to."""
    return [
        next(
            ((token, salt.start, salt.end, salt.digest) for salt in salts if salt.start <= place < salt.end),
            token,
        )
        for place, token in enumerate(tokens)
    ]


def matched_payloads(match: PrefixMatch[Payload]) -> list[object]:
    """Return the payloads of a match, up to its end."""
    return [token for chunk in match.chunks for _, payload in chunk.payloads() for token in payload][
        : match.num_tokens
    ]


def sequence(trunk: int, *tail: int) -> Tokens:
    return pack([*range(trunk), *tail])


def test_match_ends_at_first_different_token() -> None:
    index: PrefixIndex[Payload] = make_index()
    publish(index, sequence(600, 1, 2, 3))

    assert index.match(NAMESPACE, sequence(600, 1, 2, 9)).num_tokens == 602
    assert index.match(NAMESPACE, sequence(300, 7)).num_tokens == 300
    assert index.match(NAMESPACE, pack([5])).num_tokens == 0
    assert index.match(b"other weights", sequence(600)).num_tokens == 0


def test_shared_prefix_is_stored_once() -> None:
    index: PrefixIndex[Payload] = make_index()
    for agent in range(10):
        publish(index, sequence(2048, *([agent] * 100)))

    assert index.num_bytes == 2048 + 10 * 100


@pytest.mark.parametrize("trunk", [2000, 2048, 2100, 2559])
def test_shared_prefix_of_any_length_is_stored_once(trunk: int) -> None:
    index = make_index()
    for agent in range(10):
        publish(index, sequence(trunk, *([agent] * 100)))

    assert index.num_bytes == trunk + 10 * 100
    for agent in range(10):
        assert matched_payloads(index.match(NAMESPACE, sequence(trunk, *([agent] * 100)))) == [
            *range(trunk),
            *([agent] * 100),
        ]


def test_shared_segment_stays_until_last_owner_is_removed() -> None:
    index = make_index()
    tails = ([7] * 50, [*[7] * 30, *[8] * 20], [9] * 50)
    for tail in tails:
        publish(index, sequence(100, *tail))
    assert index.num_bytes == 100 + 50 + 20 + 50

    sizes = []
    for place, tail in enumerate(tails):
        index.drop(index.match(NAMESPACE, sequence(100, *tail)).chunks[-1].key)
        sizes.append(index.num_bytes)
        for other in tails[place + 1 :]:
            assert matched_payloads(index.match(NAMESPACE, sequence(100, *other))) == [*range(100), *other]
        index.check_integrity()

    assert sizes == [100 + 30 + 20 + 50, 100 + 30 + 20 + 50 - 20 - 30, 0]


def test_extended_chunk_replaces_shorter_one_except_shared_segments() -> None:
    index = make_index()
    publish(index, sequence(100, *([7] * 50)))
    publish(index, sequence(100, *([8] * 50)))
    publish(index, sequence(100, *([7] * 90)))

    pieces = [
        payload for _, payload in index.match(NAMESPACE, sequence(100, *([7] * 90))).chunks[-1].payloads()
    ]

    assert pieces == [tuple(range(100)), (7,) * 90]
    assert index.num_bytes == 100 + 90 + 50


def test_shared_segment_is_split_at_earlier_branch() -> None:
    index = make_index()
    conversations = [
        sequence(100, *([7] * 50)),
        sequence(100, *([8] * 50)),
        sequence(100, *([7] * 30), *([9] * 20)),
        sequence(40, *([5] * 50)),
    ]
    for tokens in conversations:
        publish(index, tokens)

    assert index.num_bytes == 100 + 50 + 50 + 20 + 50
    assert [matched_payloads(index.match(NAMESPACE, tokens)) for tokens in conversations] == [
        list(tokens) for tokens in conversations
    ]
    assert [
        segment.num_tokens for segment in index.match(NAMESPACE, conversations[0]).chunks[-1].shared_segments
    ] == [
        40,
        60,
        30,
    ]
    index.check_integrity()


def test_different_images_share_only_text_before_them() -> None:
    index = make_index()
    tokens = sequence(40)
    images = [(Salt(20, 30, digest),) for digest in (b"red", b"blue")]
    for image in images:
        publish(index, tokens, image)

    assert index.num_bytes == 20 + 2 * 20
    assert [matched_payloads(index.match(NAMESPACE, tokens, image)) for image in images] == [
        tokens_with_images(tokens, image) for image in images
    ]
    assert [
        index.match(NAMESPACE, tokens, other).num_tokens for other in ((), (Salt(20, 30, b"green"),))
    ] == [20, 20]
    index.check_integrity()


@pytest.mark.parametrize("behind", [5, 500])
def test_equal_images_match_beyond_the_image(behind: int) -> None:
    index = make_index()
    image = (Salt(20, 30, b"red"),)
    publish(index, sequence(30 + behind, 7), image)

    assert index.match(NAMESPACE, sequence(30 + behind, 7, 8, 9), image).num_tokens == 31 + behind
    assert (
        index.match(
            NAMESPACE, sequence(30 + behind, 8), (*image, Salt(30 + behind, 31 + behind, b"blue"))
        ).num_tokens
        == 30 + behind
    )
    index.check_integrity()


def test_longer_sequence_replaces_partial_chunk_and_keeps_checkpoints() -> None:
    index: PrefixIndex[Payload] = make_index()
    publish(index, sequence(300))
    partial = index.match(NAMESPACE, sequence(300)).chunks[-1]
    index.add_checkpoint(partial, Checkpoint(290, "state", 7))

    publish(index, sequence(400))

    match = index.match(NAMESPACE, sequence(500))
    found = match.checkpoint(at_most=499)
    assert (len(index), index.num_bytes, match.num_tokens) == (1, 407, 400)
    assert found is not None
    assert found[0].position == 290
    index.check_integrity()


def test_checkpoint_is_usable_only_within_match() -> None:
    index: PrefixIndex[Payload] = make_index()
    publish(index, sequence(1024))
    first, second = index.match(NAMESPACE, sequence(1024)).chunks
    index.add_checkpoint(first, Checkpoint(100, "early", 1))
    index.add_checkpoint(second, Checkpoint(900, "late", 1))

    positions = [
        found[0].position
        if (found := index.match(NAMESPACE, sequence(length)).checkpoint(at_most=length - 1))
        else None
        for length in (1024, 901, 900, 101, 100)
    ]

    assert positions == [900, 900, 100, 100, None]


def test_checkpoint_is_shared_by_siblings_and_counted_once() -> None:
    index: PrefixIndex[Payload] = make_index()
    publish(index, sequence(100, *([7] * 50)))
    publish(index, sequence(100, *([8] * 50)))
    holder = index.match(NAMESPACE, sequence(100, *([8] * 50))).chunks[-1]
    index.add_checkpoint(holder, Checkpoint(90, "state", 1))

    found = index.match(NAMESPACE, sequence(100, *([7] * 50))).checkpoint(at_most=149)

    assert found is not None
    assert found[0].position == 90
    assert index.num_bytes == 100 + 50 + 50 + 1
    index.check_integrity()


def test_lru_leaf_is_evicted_first_and_leased_never() -> None:
    index: PrefixIndex[Payload] = make_index(max_bytes=3 * CHUNK_TOKENS)
    old, used, leased = (sequence(0, *([number] * CHUNK_TOKENS)) for number in (1, 2, 3))
    for tokens in (leased, old, used):
        publish(index, tokens)
    index.touch(index.match(NAMESPACE, used).chunks[-1])
    lease = index.match(NAMESPACE, leased)
    index.lease(lease)

    publish(index, sequence(0, *([4] * CHUNK_TOKENS)))

    assert index.match(NAMESPACE, old).num_tokens == 0
    assert index.match(NAMESPACE, used).num_tokens == CHUNK_TOKENS
    assert index.match(NAMESPACE, leased).num_tokens == CHUNK_TOKENS
    index.release(lease)
    index.check_integrity()


def with_state(index: PrefixIndex[Payload], trunk: int, tail: int, state_bytes: int) -> Checkpoint[Payload]:
    """Publish a conversation of 100 tokens with a state at its end."""
    publish(index, pack([trunk] * 50 + [tail] * 50))
    state = Checkpoint(100, "state", state_bytes)
    index.add_checkpoint(index.match(NAMESPACE, pack([trunk] * 50 + [tail] * 50)).chunks[-1], state)
    return state


def bytes_of_states(index: PrefixIndex[Payload]) -> int:
    states = {state for chunk in index.chunks() for state in chunk.checkpoints}
    return sum(state.num_bytes for state in states)


def salts_of(caller: bytes, salt: bytes = b"") -> tuple[Salt, ...]:
    return (Salt(-1, 1, namespace_within(caller * CALLER_BYTES, salt) if salt else caller * CALLER_BYTES),)


def num_stored(index: PrefixIndex[Payload], seeds: Sequence[int], salts: Sequence[Salt]) -> int:
    """Return how many tokens of the sequences of 100 tokens match."""
    return sum(index.match(NAMESPACE, pack([seed] * 100), salts).num_tokens for seed in seeds)


@pytest.mark.parametrize("shares_fairly", [True, False])
def test_caller_over_its_share_is_evicted_first(shares_fairly: bool) -> None:
    index = make_index(max_bytes=1000, shares_fairly=shares_fairly)
    modest, greedy = salts_of(b"m"), salts_of(b"g")
    for seed in range(3):
        publish(index, pack([seed] * 100), modest)
    for seed in range(20):
        publish(index, pack([seed] * 100), salts_of(b"g", b"salt") if seed % 2 else greedy)
    index.check_integrity()
    assert num_stored(index, range(3), modest) == (300 if shares_fairly else 0)
    newest = num_stored(index, range(14, 20), greedy) + num_stored(
        index, range(14, 20), salts_of(b"g", b"salt")
    )
    assert newest == 600

    for seed in range(30, 50):
        publish(index, pack([seed] * 100), modest)
    assert num_stored(index, range(45, 50), modest) == 500
    assert num_stored(index, range(20), greedy) + num_stored(index, range(20), salts_of(b"g", b"salt")) == (
        500 if shares_fairly else 0
    )
    index.check_integrity()


def test_states_of_a_caller_over_its_share_are_evicted_first() -> None:
    index = make_index(max_bytes=1000, shares_fairly=True)
    modest, greedy = salts_of(b"m"), salts_of(b"g")
    for seed, salts in ((0, modest), *((seed, greedy) for seed in range(1, 6))):
        publish(index, pack([seed] * 20), salts)
        (chunk,) = index.match(NAMESPACE, pack([seed] * 20), salts).chunks
        index.add_checkpoint(chunk, Checkpoint(20, "state", 150))
    index.check_integrity()
    kept = [bool(chunk.checkpoints) for chunk in sorted(index.chunks(), key=lambda chunk: chunk.ids)]
    assert kept == [True, False, False, False, True, True]


def test_states_stay_within_their_share() -> None:
    index: PrefixIndex[Payload] = make_index(max_bytes=4000)
    states = [with_state(index, 1, tail, 500) for tail in range(8)]

    assert bytes_of_states(index) == 2000
    assert index.num_bytes == 50 + 8 * 50 + 2000
    assert [bool(state.owners) for state in states] == [False] * 4 + [True] * 4
    index.check_integrity()


def test_lru_state_is_evicted_first_and_leased_never() -> None:
    index: PrefixIndex[Payload] = make_index(max_bytes=4000)
    leased, used, idle, last = (with_state(index, trunk, trunk, 500) for trunk in range(4))
    lease = index.match(NAMESPACE, pack([0] * 100))
    index.lease(lease)
    index.touch_state(used)

    newest = with_state(index, 9, 9, 500)

    assert [bool(state.owners) for state in (leased, used, idle, last, newest)] == [
        True,
        True,
        False,
        True,
        True,
    ]
    index.release(lease)
    index.check_integrity()


def test_buffer_budget_is_enforced() -> None:
    index: PrefixIndex[Payload] = make_index(
        max_buffers=10, buffers_of=lambda payload: 3 if payload == "state" else 2
    )
    for trunk in range(5):
        with_state(index, trunk, trunk, 1)

    assert (len(index), index.num_buffers) == (2, 10)
    index.check_integrity()


def test_on_evict_precedes_on_release() -> None:
    evicted: list[int] = []
    released: list[Payload] = []
    index: PrefixIndex[Payload] = make_index(
        on_evict=lambda chunk: evicted.append(chunk.end), on_release=released.append
    )
    with_state(index, 1, 1, 1)
    publish(index, sequence(600))

    index.shrink(0)

    assert evicted == [100, 600, 512]
    assert released == ["state", (1,) * 100, tuple(range(512, 600)), tuple(range(512))]


def test_discard_removes_descendants() -> None:
    index: PrefixIndex[Payload] = make_index()
    publish(index, sequence(5 * CHUNK_TOKENS))
    path = index.match(NAMESPACE, sequence(5 * CHUNK_TOKENS)).chunks
    index.pin(path[-1].key)

    index.discard(path[2])

    assert index.match(NAMESPACE, sequence(5 * CHUNK_TOKENS)).chunks == path[:2]
    index.check_integrity()


def test_chunk_larger_than_budget_is_not_stored() -> None:
    index: PrefixIndex[Payload] = make_index(max_bytes=100)
    publish(index, sequence(1000))

    assert index.num_bytes <= 100
    index.check_integrity()


def test_image_salts_only_overlapping_chunks() -> None:
    tokens = sequence(3 * CHUNK_TOKENS).tobytes()
    one, other = (
        Salt(CHUNK_TOKENS + 5, CHUNK_TOKENS + 50, b"red"),
        Salt(CHUNK_TOKENS + 5, CHUNK_TOKENS + 50, b"blue"),
    )

    def keys(salt: Salt) -> list[bytes]:
        found, parent = [], root_key(NAMESPACE)
        for start in range(0, 3 * CHUNK_TOKENS, CHUNK_TOKENS):
            parent = chunk_key(parent, tokens[4 * start : 4 * (start + CHUNK_TOKENS)], (salt,), start=start)
            found.append(parent)
        return found

    assert keys(one)[0] == keys(other)[0]
    assert keys(one)[1] != keys(other)[1]
    assert keys(one)[2] != keys(other)[2]


def num_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the length of the common prefix by a naive count."""
    places = zip(one, other, strict=False)
    return next((place for place, pair in enumerate(places) if pair[0] != pair[1]), min(len(one), len(other)))


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_common_length_equals_naive_count(one: list[int], other: list[int]) -> None:
    assert common_tokens(pack(one), pack(other)) == num_common(one, other)


# Token runs, each of text or of one image.
Shape = list[tuple[int, int, bytes | None]]
SHAPES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 300), st.sampled_from([None, None, b"red", b"blue"])),
    min_size=1,
    max_size=4,
)


def shaped(shape: Shape) -> tuple[Tokens, tuple[Salt, ...]]:
    ends = list(accumulate(repeat for _, repeat, _ in shape))
    salts = [
        Salt(end - run[1], end, run[2]) for run, end in zip(shape, ends, strict=True) if run[2] is not None
    ]
    return pack([token for token, repeat, _ in shape for _ in range(repeat)]), tuple(salts)


class AgainstNaiveModel(RuleBasedStateMachine):
    """Compares matches with those of a list of all published sequences.

    Payloads along a match are those of its tokens and images; no token is stored twice, except few at the
    start of chunks that differ there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.index: PrefixIndex[Payload] = make_index()
        self.sequences: list[list[object]] = []

    @rule(shape=SHAPES)
    def publish(self, shape: Shape) -> None:
        tokens, salts = shaped(shape)
        publish(self.index, tokens, salts)
        self.sequences.append(tokens_with_images(tokens, salts))

    @rule(shape=SHAPES)
    def match(self, shape: Shape) -> None:
        tokens, salts = shaped(shape)
        expected = tokens_with_images(tokens, salts)
        longest = max((num_common(expected, other) for other in self.sequences), default=0)
        match = self.index.match(NAMESPACE, tokens, salts)
        assert match.num_tokens == longest
        assert matched_payloads(match) == expected[:longest]

    @invariant()
    def nothing_is_stored_twice(self) -> None:
        ordered = sorted(
            {repr(tokens): tokens for tokens in self.sequences}.values(),
            key=lambda tokens: list(map(repr, tokens)),
        )
        shared = sum(num_common(one, other) for one, other in pairwise(ordered))
        least = sum(map(len, ordered)) - shared
        assert least <= self.index.num_bytes <= least + (MIN_REUSE_TOKENS - 1) * len(ordered)

    @invariant()
    def totals_are_correct(self) -> None:
        self.index.check_integrity()


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None, derandomize=True
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase


@pytest.mark.parametrize("budget", [0, 300, 2000])
@given(
    shapes=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), min_size=1, max_size=4), max_size=8
    ),
    state_bytes=st.integers(0, 400),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_matches_and_totals_are_correct_under_any_budget(
    budget: int, shapes: list[list[tuple[int, int]]], state_bytes: int
) -> None:
    index: PrefixIndex[Payload] = make_index(max_bytes=budget, max_buffers=12)
    for shape in shapes:
        tokens = pack([token for token, repeat in shape for _ in range(repeat)])
        publish(index, tokens)
        match = index.match(NAMESPACE, tokens)
        assert matched_payloads(match) == list(tokens[: match.num_tokens])
        if match.chunks:
            index.add_checkpoint(match.chunks[-1], Checkpoint(match.chunks[-1].end, "state", state_bytes))
        assert index.num_bytes <= budget
        assert index.num_buffers <= 12
        assert bytes_of_states(index) <= budget // 2
        index.check_integrity()
