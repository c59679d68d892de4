"""Imports that take long, beside a thread that has other things to do.

Modules that make no arrays when they are imported only.
"""

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

# How long the thread waits before it looks after the others again.
_SLICE_SECONDS = 0.005


def import_aside(*modules: str) -> Iterator[None]:
    """Import modules, in order, on a thread of their own, and pause again and again until they are there.

    Raises what the imports raise.
    """
    helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="import")
    coming = [helper.submit(importlib.import_module, module) for module in modules]
    helper.shutdown(wait=False)
    for module in coming:
        while not module.done():
            wait([module], timeout=_SLICE_SECONDS)
            yield
        module.result()
