"""A model with a short context.

Answers of any requested length end soon.
"""

import json
import shutil
from pathlib import Path

CONTEXT_LENGTH = 384


def with_short_context(model: Path, directory: Path) -> Path:
    """Copy a model to `directory` with a context of CONTEXT_LENGTH tokens."""
    shutil.copytree(model, directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"max_position_embeddings": CONTEXT_LENGTH}))
    return directory
