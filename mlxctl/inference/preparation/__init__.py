"""Worker processes for request preparation: parsing, chat templates, tokenizing.

The front uses `pool`; `process` and `jobs` run in the workers. Workers are forks of a server process that has
read the models' tokenizers once, so that a killed one is replaced within milliseconds and memory is shared.
"""

from mlxctl.inference.preparation.packed_request import PackedRequest
from mlxctl.inference.preparation.pool import PreparationPool

__all__ = ["PackedRequest", "PreparationPool"]
