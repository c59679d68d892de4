"""How long a prefix is kept: for a time, for good, or pinned; the longest wish of all who share it holds."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mlxctl.ir.tokens import Tokens, pack
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, Key
from mlxctl.prefix_cache.entries import Chunk
from mlxctl.prefix_cache.index import PrefixIndex

NAMESPACE = b"weights"


class Clock:
    """Time that passes only when told."""

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


def known(index: PrefixIndex[str], tokens: Tokens) -> int:
    return index.match(NAMESPACE, tokens).num_tokens


def conversation(trunk: int, tail: int, num_tail: int = 50) -> Tokens:
    return pack([*range(trunk), *([tail] * num_tail)])


def test_what_has_expired_is_not_found_and_makes_room() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)

    clock.now += 299
    assert known(index, conversation(512, 7)) == 562
    clock.now += 1
    assert known(index, conversation(512, 7)) == 0
    assert index.expire() == 2
    assert index.num_bytes == 0


def test_a_use_within_the_time_renews_it() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)

    clock.now += 200
    index.touch(index.match(NAMESPACE, conversation(512, 7)).chunks[-1], ttl_seconds=300)
    clock.now += 200

    assert known(index, conversation(512, 7)) == 562


def test_a_shared_trunk_lives_as_long_as_the_longest_of_its_conversations() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(512, 7), ttl_seconds=300)
    publish(index, conversation(512, 8), ttl_seconds=3600)

    clock.now += 301
    index.expire()

    assert known(index, conversation(512, 7)) == 512
    assert known(index, conversation(512, 8)) == 562
    index.check_integrity()


def test_without_a_time_to_live_nothing_expires() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20, clock=clock)
    publish(index, conversation(300, 7), ttl_seconds=10)
    publish(index, conversation(300, 7))

    clock.now += 1e9

    assert index.expire() == 0
    assert known(index, conversation(300, 7)) == 350


def test_a_pinned_prefix_outlives_its_time_and_every_budget_until_it_is_unpinned() -> None:
    clock = Clock()
    index: PrefixIndex[str] = PrefixIndex(max_bytes=700, clock=clock)
    chunk = publish(index, conversation(512, 7), ttl_seconds=10)
    assert chunk is not None
    assert index.pin(chunk.key)

    clock.now += 100
    index.expire()
    publish(index, pack([9] * 600))
    index.shrink(0)
    assert known(index, conversation(512, 7)) == 562

    assert index.unpin(chunk.key)
    index.shrink(0)
    assert known(index, conversation(512, 7)) == 0


def test_a_pin_stays_with_the_longer_chunk_that_replaces_the_pinned_one() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20)
    short = publish(index, conversation(0, 7, 40))
    assert short is not None
    index.pin(short.key)
    publish(index, conversation(0, 7, 80))

    index.shrink(0)

    assert known(index, conversation(0, 7, 80)) == 80


def test_what_is_not_there_can_be_neither_pinned_nor_unpinned() -> None:
    index: PrefixIndex[str] = PrefixIndex(max_bytes=1 << 20)
    chunk = publish(index, conversation(0, 7))
    assert chunk is not None

    assert not index.pin(b"nobody")
    assert not index.unpin(b"nobody")
    assert not index.unpin(chunk.key)


class Lifetimes(RuleBasedStateMachine):
    """Whatever is published, used, pinned and let go of: who named no end, or pinned it, finds it again, and
    the books balance.
    """

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
    def what_was_promised_is_there(self) -> None:
        for packed, until in self.alive_until.items():
            tokens = pack([])
            tokens.frombytes(packed)
            assert until <= self.clock.now or known(self.index, tokens) == len(tokens)
        for tokens in self.pinned.values():
            assert known(self.index, tokens) == len(tokens)

    @invariant()
    def books_balance(self) -> None:
        self.index.check_integrity()


Lifetimes.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, derandomize=True
)
TestLifetimes = Lifetimes.TestCase
