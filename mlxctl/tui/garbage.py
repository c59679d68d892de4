"""When Python looks for garbage: a search through everything holds the screen for 0.1 s, so it waits until nothing is drawn."""

import gc

_YOUNG_OBJECTS = 10_000
_MIDDLE_ROUNDS = 10
_NEVER_IN_AN_ANSWER = 10_000


def keep_collections_short() -> None:
    """Search the young objects only; what is loaded by now is never searched again."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_ROUNDS, _NEVER_IN_AN_ANSWER)


def collect_all() -> None:
    """Search everything; for when nobody waits."""
    gc.collect()
