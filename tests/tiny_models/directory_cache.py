"""The cache of generated models, one directory per recipe, outside the repository."""

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
    """Return the directory of all generated models.

    `MLXCTL_TEST_CACHE`, or `mlxctl-tests` in the platform's cache.
    """
    if override := os.environ.get("MLXCTL_TEST_CACHE"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mlxctl-tests"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlxctl-tests"


def cached_directory(family: Family) -> Path:
    """Return the family's model directory, built once per recipe."""

    def build(directory: Path) -> None:
        from .writer import build  # imports mlx_lm, which takes seconds

        build(family, directory)

    return in_cache(
        family.name,
        recipe_digest(
            repr(family), "families", "writer", "vocabulary", "small_towers", template=family.template
        ),
        build,
    )


def cached_encoder_directory(name: str) -> Path:
    """Return an encoder's directory, built once per version of its code."""

    def build(directory: Path) -> None:
        from .encoders import ENCODERS, build_encoder

        build_encoder(ENCODERS[name], directory)

    return in_cache(name, recipe_digest(name, "encoders", "vocabulary"), build)


def cached_speech_directory(name: str) -> Path:
    """Return a speech model's directory, built once per version of its code."""

    def build(directory: Path) -> None:
        from .speech_models import BUILDERS

        BUILDERS[name](directory)

    return in_cache(name, recipe_digest(name, "speech_models"), build)


def in_cache(name: str, digest: str, build: Callable[[Path], None]) -> Path:
    """Return the cached directory, built if missing.

    Processes may build the same model at once: each uses its own directory, the first rename wins.
    """
    target = cache_root() / f"{name}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{name}-"))
    try:
        build(temporary)
        with suppress(OSError):
            temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def recipe_digest(recipe: str, *modules: str, template: str | None = None) -> str:
    """Return a digest of everything that a model is built from."""
    digest = hashlib.sha256(recipe.encode())
    sources = [Path(__file__).parent / f"{module}.py" for module in modules]
    for source in [*sources, *([TEMPLATES[template]] if template else [])]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
