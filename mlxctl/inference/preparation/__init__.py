"""Worker processes for request preparation: parsing, chat templates, tokenizing.

The front speaks to them through `pool`; `process` and `jobs` run in them. They are forks of a template
process that has read the models' tokenizers once, so that one that was killed is replaced within
milliseconds, and their memory is shared.
"""

from mlxctl.inference.preparation.packed_request import PackedRequest
from mlxctl.inference.preparation.pool import PreparationPool

__all__ = ["PackedRequest", "PreparationPool"]
