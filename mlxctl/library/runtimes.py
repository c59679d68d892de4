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
        ("tts/models", "stt/models", "sts/models"),
        ("tts/utils.py", "stt/utils.py", "sts/utils.py"),
    ),
    "mlx-embeddings": ("mlx_embeddings", ("models",), ("utils.py",)),
}


def find_runtimes(model_type: str) -> tuple[str, ...] | None:
    """Return the packages that can load `model_type`, best first.

    None when none of the packages is installed.
    """
    known = {package: types for package in _PACKAGES if (types := _model_types(package))}
    return tuple(package for package, types in known.items() if model_type in types) if known else None


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
