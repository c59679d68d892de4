"""Slow imports on a separate thread.

Only for modules that create no arrays when they are imported.
"""

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

# Pause between two checks whether an import is done.
_SLICE_SECONDS = 0.005


def import_in_thread(*modules: str) -> Iterator[None]:
    """Import modules, in order, on another thread; yield until they are there.

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
