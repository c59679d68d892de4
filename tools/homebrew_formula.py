"""Writes the Homebrew formula of a release: `python -m tools.homebrew_formula ARCHIVE`."""

import hashlib
import re
import sys
from pathlib import Path

FORMULA = Path(__file__).parent.parent / "packaging" / "homebrew" / "mlxctl.rb"


def filled_in(formula: str, sdist: Path) -> str:
    """Return the formula with the source archive's name and SHA-256."""
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    formula = re.sub(r"mlxctl-[\w.]+?\.tar\.gz(?=\")", sdist.name, formula)
    return re.sub(r'sha256 "[0-9a-f]*"', f'sha256 "{digest}"', formula)


def main() -> None:
    """Print the formula for the source archive named on the command line."""
    sys.stdout.write(filled_in(FORMULA.read_text(encoding="utf-8"), Path(sys.argv[1])))


if __name__ == "__main__":
    main()
