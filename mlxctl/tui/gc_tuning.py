"""When Python looks for garbage: a search through more than the last objects would hold the screen, so it
waits for a pause.
"""

import gc

# Few enough to be searched in about a millisecond.
_YOUNG_GENERATION_OBJECTS = 2_000
_NO_COLLECTION = 1_000_000


def limit_collections() -> None:
    """Search the youngest objects only; what is loaded by now is never searched again."""
    gc.freeze()
    gc.set_threshold(_YOUNG_GENERATION_OBJECTS, _NO_COLLECTION, _NO_COLLECTION)


def collect_recent() -> None:
    """Search what came since the last time; for when an answer is over."""
    gc.collect(1)


def collect_all() -> None:
    """Search everything; for when another conversation is opened, which takes its time anyway."""
    gc.collect()
