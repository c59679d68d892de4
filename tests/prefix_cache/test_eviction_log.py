"""The log of evictions is bounded."""

from mlxctl.prefix_cache.eviction import MAX_LOGGED_EVICTIONS, EvictionLog


def test_oldest_reason_is_dropped() -> None:
    log = EvictionLog()
    names = [f"{number:08}".encode() for number in range(MAX_LOGGED_EVICTIONS + 1)]
    for name in names:
        log.add(b"", name, "evicted")

    assert [log.reason(b"", name) for name in (names[0], names[1], names[-1])] == [None, "evicted", "evicted"]
