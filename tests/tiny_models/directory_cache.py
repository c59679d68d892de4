"""Where forged models lie: one directory per recipe below the user's cache, never inside the repository."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .families import TEMPLATES, Family


def cache_root() -> Path:
    """Give the directory of all forged models: `MLXCTL_TEST_CACHE`, or `mlxctl-tests` in the platform's
    cache.
    """
    if override := os.environ.get("MLXCTL_TEST_CACHE"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mlxctl-tests"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlxctl-tests"


def cached_directory(family: Family) -> Path:
    """Give the family's model directory, built at most once per recipe."""

    def build(directory: Path) -> None:
        from .writer import build  # costs seconds (mlx_lm), and only the first time

        build(family, directory)

    return _in_cache(
        family.name,
        _digest(repr(family), "families", "writer", "vocabulary", template=family.template),
        build,
    )


def cached_encoder_directory(name: str) -> Path:
    """Give the directory of a forged encoder, built at most once as long as the tiny_models does not change."""

    def build(directory: Path) -> None:
        from .encoders import ENCODERS, build_encoder

        build_encoder(ENCODERS[name], directory)

    return _in_cache(name, _digest(name, "encoders", "vocabulary"), build)


def _in_cache(name: str, digest: str, build: Callable[[Path], None]) -> Path:
    """Two processes may build the same model: each works in a directory of its own and the first rename wins."""
    target = cache_root() / f"{name}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{name}-"))
    try:
        build(workshop)
        with suppress(OSError):
            workshop.replace(target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return target


def _digest(recipe: str, *modules: str, template: str | None = None) -> str:
    """Digest everything a model is made from, so that a changed recipe gives a new directory."""
    digest = hashlib.sha256(recipe.encode())
    sources = [Path(__file__).parent / f"{module}.py" for module in modules]
    for source in [*sources, *([TEMPLATES[template]] if template else [])]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
