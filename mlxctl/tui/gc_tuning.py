"""When Python looks for garbage: a search through more than the last objects would hold the screen, so it
waits for a pause.
"""

import gc

# Few enough to be searched in about a millisecond.
_YOUNG_OBJECTS = 2_000
_NEVER_IN_AN_ANSWER = 1_000_000


def keep_collections_short() -> None:
    """Search the youngest objects only; what is loaded by now is never searched again."""
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _NEVER_IN_AN_ANSWER, _NEVER_IN_AN_ANSWER)


def collect_recent() -> None:
    """Search what came since the last time; for when an answer is over."""
    gc.collect(1)


def collect_all() -> None:
    """Search everything; for when another conversation is opened, which takes its time anyway."""
    gc.collect()
