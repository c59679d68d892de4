"""Lifetimes of prefixes: TTL, none, pinned; the longest of all users applies."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mlxctl.ir.tokens import Tokens, pack
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex

NAMESPACE = b"weights"


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def publish(
    index: PrefixIndex[str], tokens: Tokens, *, ttl_seconds: float | None = None
) -> Chunk[str] | None:
    """Publish a whole sequence, chunk by chunk; return its last chunk."""
    parent: Chunk[str] | None = None
    for start in range(0, len(tokens), CHUNK_TOKENS):
        piece = tokens[start : start + CHUNK_TOKENS]
        parent = index.publish(NAMESPACE, parent, piece.tobytes(), "kv", len(piece), ttl_seconds=ttl_seconds)
        if parent is None:
            return None
    if parent is not None:
        index.touch(parent, ttl_seconds=ttl_seconds)
    return parent


def num_matched(index: PrefixIndex[str], tokens: Tokens) -> int:
    return index.match(NAMESPACE, tokens).num_tokens


def conversation(trunk: int, tail: int, num_tail: int = 50) -> Tokens:
    return pack([*range(trunk), *([tail] * num_tail)])


def test_expired_prefix_does_not_match_and_is_removed() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)

    clock.now += 299
    assert num_matched(index, conversation(512, 7)) == 562
    clock.now += 1
    assert num_matched(index, conversation(512, 7)) == 0
    assert index.expire() == 2
    assert index.num_bytes == 0


def test_use_renews_ttl() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)

    clock.now += 200
    index.touch(index.match(NAMESPACE, conversation(512, 7)).chunks[-1], ttl_seconds=300)
    clock.now += 200

    assert num_matched(index, conversation(512, 7)) == 562


def test_shared_prefix_has_longest_lifetime_of_its_users() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)
    publish(index, conversation(512, 8), ttl_seconds=3600)

    clock.now += 301
    index.expire()

    assert num_matched(index, conversation(512, 7)) == 512
    assert num_matched(index, conversation(512, 8)) == 562
    index.check_integrity()


def test_nothing_expires_without_ttl() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(300, 7), ttl_seconds=10)
    publish(index, conversation(300, 7))

    clock.now += 1e9

    assert index.expire() == 0
    assert num_matched(index, conversation(300, 7)) == 350


def test_pinned_prefix_survives_ttl_and_budget_until_unpinned() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1200, clock=clock)
    chunk = publish(index, conversation(512, 7), ttl_seconds=10)
    assert chunk is not None
    assert index.pin(chunk.key)

    clock.now += 100
    index.expire()
    publish(index, pack([9] * 600))
    index.shrink(0)
    assert num_matched(index, conversation(512, 7)) == 562

    assert index.unpin(chunk.key)
    index.shrink(0)
    assert num_matched(index, conversation(512, 7)) == 0


def test_pinned_prefixes_take_at_most_half_of_the_budget() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1600)
    first, second = publish(index, conversation(512, 7)), publish(index, conversation(512, 8))
    other = publish(index, pack([9] * 400))
    assert first is not None
    assert second is not None
    assert other is not None
    assert index.pin(first.key)
    assert index.pin(first.key)
    # Of the second, only what the first does not have counts.
    assert index.pin(second.key)
    assert not index.pin(other.key)
    assert index.unpin(first.key)
    assert index.unpin(second.key)
    assert index.pin(other.key)


def test_pin_that_was_accepted_earlier_is_kept_beyond_the_share() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=700)
    chunk = publish(index, conversation(512, 7))
    assert chunk is not None
    assert not index.pin(chunk.key)

    index.keep_pinned(chunk)
    index.shrink(0)
    assert num_matched(index, conversation(512, 7)) == 562


def test_longer_chunk_inherits_pin() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20)
    short = publish(index, conversation(0, 7, 40))
    assert short is not None
    index.pin(short.key)
    publish(index, conversation(0, 7, 80))

    index.shrink(0)

    assert num_matched(index, conversation(0, 7, 80)) == 80


def test_leased_chunk_is_not_replaced_by_a_longer_one() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20)
    short = publish(index, conversation(0, 7, 40))
    assert short is not None
    match = index.match(NAMESPACE, conversation(0, 7, 40))
    index.lease(match)
    publish(index, conversation(0, 7, 80))

    assert index.contains(short)
    assert num_matched(index, conversation(0, 7, 80)) == 80
    index.release(match)


def test_missing_chunk_cannot_be_pinned_or_unpinned() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20)
    chunk = publish(index, conversation(0, 7))
    assert chunk is not None

    assert not index.pin(b"missing")
    assert not index.unpin(b"missing")
    assert not index.unpin(chunk.key)


class Lifetimes(RuleBasedStateMachine):
    """Random operations: unexpired and pinned prefixes match, and the integrity check passes."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 30, clock=self.clock)
        self.alive_until: dict[bytes, float] = {}
        self.pinned: dict[Key, Tokens] = {}

    @rule(tail=st.integers(0, 2), length=st.integers(1, 600), ttl=st.one_of(st.none(), st.integers(1, 100)))
    def publish(self, tail: int, length: int, ttl: int | None) -> None:
        tokens = conversation(300, tail, length)
        publish(self.index, tokens, ttl_seconds=ttl)
        until = float("inf") if ttl is None else self.clock.now + ttl
        self.alive_until[tokens.tobytes()] = max(until, self.alive_until.get(tokens.tobytes(), 0.0))

    @rule(tail=st.integers(0, 2), length=st.integers(1, 600))
    def pin(self, tail: int, length: int) -> None:
        tokens = conversation(300, tail, length)
        match = self.index.match(NAMESPACE, tokens)
        if match.chunks and match.chunks[-1].end == match.num_tokens:
            assert self.index.pin(match.chunks[-1].key)
            self.pinned[match.chunks[-1].key] = tokens[: match.num_tokens]

    @rule(seconds=st.integers(1, 80))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds
        self.index.expire()

    @rule()
    def need_room(self) -> None:
        self.index.shrink(0)
        self.alive_until.clear()

    @invariant()
    def unexpired_prefixes_match(self) -> None:
        for packed, until in self.alive_until.items():
            tokens = pack([])
            tokens.frombytes(packed)
            assert until <= self.clock.now or num_matched(self.index, tokens) == len(tokens)
        for tokens in self.pinned.values():
            assert num_matched(self.index, tokens) == len(tokens)

    @invariant()
    def totals_are_correct(self) -> None:
        self.index.check_integrity()


Lifetimes.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, derandomize=True
)
TestLifetimes = Lifetimes.TestCase
