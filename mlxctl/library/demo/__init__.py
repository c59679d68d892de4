"""The built-in demo model.

A tiny Qwen3 in the wheel, served when no model is named. `model/` is an ordinary Hugging Face directory,
trained by `python -m tools.demo_model`. ABILITIES.md has its measured abilities (not in the wheel). Nothing
here imports mlx.
"""

from pathlib import Path

MODEL_NAME = "mlxctl-demo"
SHORT_NAME = "demo"
MODEL_DIR: Path = Path(__file__).parent / "model"

__all__ = ["MODEL_DIR", "MODEL_NAME", "SHORT_NAME"]
