"""Virtual environments as `pip install '.[EXTRA]'` makes them.

Their packages are links into the environment that runs the tests.
"""

import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent


def project() -> dict[str, Any]:
    """Return the `project` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def requirements(*extras: str) -> list[Requirement]:
    """Return mlxctl's requirements on this platform, plain or with extras."""
    declared = [
        *project()["dependencies"],
        *(text for extra in extras for text in project()["optional-dependencies"][extra]),
    ]
    found = [Requirement(text) for text in declared]
    return [
        requirement for requirement in found if requirement.marker is None or requirement.marker.evaluate()
    ]


def distributions(*extras: str) -> dict[str, Distribution]:
    """Return all packages of an installation with these extras."""
    found: dict[str, Distribution] = {}
    waiting, seen = requirements(*extras), set[str]()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        found[canonicalize_name(requirement.name)] = installed
        needed = [Requirement(text) for text in installed.requires or []]
        waiting += [other for other in needed if _holds(other, requirement.extras)]
    return found


def make_environment(directory: Path, *extras: str) -> Path:
    """Create an environment with mlxctl and these extras; return its interpreter."""
    venv.create(directory, symlinks=True, with_pip=False)
    packages = (
        directory / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    for installed in (*distributions(*extras).values(), distribution("mlxctl")):
        for path in _top_level(installed):
            link = packages / path.name
            if path.suffix != ".pth" and not link.exists():
                link.symlink_to(path)
    if not (packages / "mlxctl").exists():
        (packages / "mlxctl").symlink_to(ROOT / "mlxctl")
    return directory / "bin" / "python"


def _holds(requirement: Requirement, extras: set[str]) -> bool:
    return requirement.marker is None or any(
        requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
    )


def _top_level(installed: Distribution) -> Iterator[Path]:
    """Yield the top-level files and directories of a distribution."""
    names = {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}
    yield from (Path(str(installed.locate_file(name))) for name in sorted(names))
