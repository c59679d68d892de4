"""Checks that macOS has wheels of all packages.

`python -m tools.mac_wheels [EXTRA]...` resolves the versions of constraints.txt for Apple silicon with uv,
for every supported Python, without building anything. Needs `uv` on the path and the network.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OLDEST_MACOS = "14.0"
"""As in the README; MLX has no wheels for older ones."""


def python_versions(project: dict[str, Any]) -> list[str]:
    """Return the Python versions that the classifiers of the project name."""
    named = (text.rpartition(" :: ") for text in project["classifiers"])
    return [version for kind, _, version in named if kind == "Programming Language :: Python"]


def command(version: str, extras: list[str]) -> list[str]:
    """Return uv's command line for one Python version."""
    return [
        "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--only-binary", ":all:",
        "--python-platform", "aarch64-apple-darwin", "--python-version", version, "-c", "constraints.txt",
        *(part for extra in extras for part in ("--extra", extra)), "pyproject.toml",
    ]  # fmt: skip


def main(extras: list[str]) -> int:
    """Print a line for each Python version; return the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": OLDEST_MACOS}
    failed = False
    for version in python_versions(project):
        done = subprocess.run(  # noqa: S603 -- uv, with the extras of the command line
            command(version, extras), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        failed = failed or done.returncode != 0
        packages = len(done.stdout.split())
        sys.stdout.write(
            f"Python {version}: {done.stderr.strip() if done.returncode else f'{packages} wheels'}\n"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
