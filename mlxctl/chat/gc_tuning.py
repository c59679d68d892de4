"""Garbage collection without visible pauses: full collections wait for idle time."""

import gc

# A young collection of this size takes about a millisecond.
_YOUNG_GENERATION_OBJECTS = 2_000
_NO_COLLECTION = 1_000_000


def limit_collections() -> None:
    """Freeze loaded objects and collect only the youngest generation automatically."""
    gc.freeze()
    gc.set_threshold(_YOUNG_GENERATION_OBJECTS, _NO_COLLECTION, _NO_COLLECTION)


def collect_recent() -> None:
    """Collect young generations; for the end of an answer."""
    gc.collect(1)


def collect_all() -> None:
    """Collect everything; for opening another conversation."""
    gc.collect()
