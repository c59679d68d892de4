"""Shell commands that change the packages of this environment."""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mlxctl

_ROOT = "mlxctl"


def install_command(*arguments: str, has_pip: bool | None = None) -> str:
    """Return a shell command that installs packages here.

    It works whichever environment is active. Environments made by uv have no pip.
    """
    python = shlex.quote(sys.executable)
    has_pip = find_spec("pip") is not None if has_pip is None else has_pip
    tool = f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"
    return f"`{tool} {shlex.join(arguments)}`"


def reinstall_command() -> str:
    """Return the command that installs mlxctl again, from where it came."""
    directory = _source_directory()
    if directory is None:
        return install_command("--force-reinstall", _ROOT)
    return install_command("--force-reinstall", *_constraints(directory), str(directory))


def checkout_command() -> str:
    """Return the command that installs the checkout from which mlxctl runs."""
    directory = Path(mlxctl.__file__).parents[1]
    return install_command(*_constraints(directory), "-e", str(directory))


def _constraints(directory: Path) -> list[str]:
    file = directory / "constraints.txt"
    return ["-c", str(file)] if file.is_file() else []


def _source_directory() -> Path | None:
    """Return the directory from which mlxctl was installed.

    None for a package index.
    """
    try:
        origin = json.loads(distribution(_ROOT).read_text("direct_url.json") or "null")
    except (PackageNotFoundError, OSError, ValueError):
        return None
    url = urlsplit(origin["url"]) if origin else None
    directory = Path(unquote(url.path)) if url is not None and url.scheme == "file" else None
    return directory if directory is not None and directory.is_dir() else None
