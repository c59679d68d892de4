"""The built-in demo model: a tiny Qwen3 that ships with the package, so that everything works before any
download.

`model/` is an ordinary Hugging Face directory; `recipe` is the program that makes it; ABILITIES.md says what
it can do, as measured. Nothing here imports mlx: the recipe does, when it is run.
"""

from pathlib import Path

MODEL_NAME = "mlxctl-demo"
MODEL_DIR: Path = Path(__file__).parent / "model"

__all__ = ["MODEL_DIR", "MODEL_NAME"]
