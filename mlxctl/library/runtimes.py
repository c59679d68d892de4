"""Installed packages with code for an architecture, found without importing them."""

import ast
from functools import cache
from pathlib import Path

from mlxctl.state.installed import file_of

# Package, the package of its architectures, and the module that maps names.
_PACKAGES = {
    "mlx-lm": ("mlx_lm", ("models",), ("utils.py",)),
    "mlx-vlm": ("mlx_vlm", ("models",), ("utils.py",)),
    "mlx-audio": (
        "mlx_audio",
        ("tts/models", "stt/models", "sts/models", "vad/models"),
        ("tts/utils.py", "stt/utils.py", "sts/utils.py", "vad/utils.py"),
    ),
    "mlx-embeddings": ("mlx_embeddings", ("models",), ("utils.py",)),
}


def find_runtimes(model_type: str) -> tuple[str, ...] | None:
    """Return the packages that can load `model_type`, best first.

    None when none of the packages is installed.
    """
    known = {package: types for package in _PACKAGES if (types := _model_types(package))}
    return tuple(package for package, types in known.items() if model_type in types) if known else None


SELECTIVE_BATCHES = frozenset({"glm5_next", "hy_v4"})
"""Types with attention that selects tokens, whose batches are exact.

They give the tokens of single sequences. Compared beyond their budgets (`tests/engine/test_vlm_text.py`): a
model's own budget is too long to try it at each load. Blocks of the others begin at the padding of a batch.
"""

SELECTIVE_PREFIXES = SELECTIVE_BATCHES | {"minimax_m3", "qwen4_exp"}
"""Likewise, whose restored prefixes are exact.

They give the tokens of a prompt that is computed whole. Pools of deepseek_v4 depend on where a pass ends.
"""


def text_package(model_type: str) -> str:
    """Return the package with the class of a text model.

    mlx-vlm only where mlx-lm has none.
    """
    packages = find_runtimes(model_type) or ()
    return "mlx-vlm" if "mlx-vlm" in packages and "mlx-lm" not in packages else "mlx-lm"


def missing_runtime(model_type: str) -> str | None:
    """Return why no package loads a text model, and the fix.

    None if one does.
    """
    packages = find_runtimes(model_type) or ()
    if "mlx-lm" in packages or "mlx-vlm" in packages:
        return None
    if file_of("mlx_vlm") is None:
        fix = "install mlx-vlm, which has more types (pip install 'mlxctl[vision]')"
    else:
        fix = "update mlx-lm and mlx-vlm, or choose a model of another type"
    return f"no installed package has code for model_type {model_type!r}: {fix}"


@cache
def _model_types(package: str) -> frozenset[str]:
    module, folders, tables = _PACKAGES[package]
    file = file_of(module)
    if file is None:
        return frozenset()
    root = file.parent
    files = {
        path.stem if path.suffix == ".py" else path.name
        for folder in folders
        for path in (root / folder).glob("*")
    }
    names = {name for name in files if not name.startswith("_")}
    return frozenset(
        names | {old for table in tables for old, new in _remapping(root / table).items() if new in names}
    )


def _remapping(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "MODEL_REMAPPING" for target in targets):
            assert isinstance(node, ast.Assign)
            return {str(old): str(new) for old, new in ast.literal_eval(node.value).items()}
    return {}
