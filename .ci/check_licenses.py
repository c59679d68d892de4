"""Fails for packages that the environment must not have: `python .ci/check_licenses.py [PACKAGE...]`.

Those are packages of a copyleft license, or without one in their metadata. PACKAGE names those that it may
have.
"""

import re
import sys
from importlib.metadata import Distribution, distributions

# Not those of the LGPL, which are loaded as libraries.
_COPYLEFT = re.compile(
    r"(?<!L)GPL|(?<!Lesser )General Public License|SSPL|Non-?Commercial|CC-BY-NC", re.IGNORECASE
)


def license_of(package: Distribution) -> str:
    """Return what the package's metadata says about its license."""
    facts = package.metadata
    classifiers = [each for each in facts.get_all("Classifier") or [] if each.startswith("License")]
    # Some metadata has the whole text of the license.
    first_line = (facts.get("License") or "").strip().partition("\n")[0]
    return "; ".join(filter(None, [facts.get("License-Expression"), first_line, *classifiers]))


def main() -> None:
    """Print the packages that are refused; exit with 1 for any."""
    licenses = {package.name: license_of(package) for package in distributions()}
    refused = {
        name: text or "its metadata names no license"
        for name, text in licenses.items()
        if name not in sys.argv[1:] and (not text or _COPYLEFT.search(text))
    }
    for name, text in sorted(refused.items()):
        print(f"{name}: {text}")
    print(f"licenses of {len(licenses)} packages: {len(refused)} refused")
    sys.exit(bool(refused))


if __name__ == "__main__":
    main()
