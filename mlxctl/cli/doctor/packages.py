"""Check that all installed packages satisfy their requirements."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mlxctl.cli.doctor.check_result import CheckResult
from mlxctl.cli.doctor.install_commands import checkout_command, install_command

_ROOT = "mlxctl"
_MAX_CLASHES_SHOWN = 3
# Returns version and requirements of a package; raises PackageNotFoundError.
PackageLookup = Callable[[str], tuple[str, list[str]]]


def check_packages() -> CheckResult:
    """Check the requirements of mlxctl, recursively."""
    return assess_packages(_installed_package)


def assess_packages(lookup: PackageLookup) -> CheckResult:
    """Report unmet requirements and the command to fix them."""
    try:
        lookup(_ROOT)
    except PackageNotFoundError:
        facts = "mlxctl runs from its source and is not installed, so what it needs is not known"
        return CheckResult(
            name="packages",
            verdict="advice",
            facts=facts,
            remedy=checkout_command(),
        )
    num_seen, clashes = 0, dict[str, str]()
    for requirement, needed_by, found in _walk(lookup):
        num_seen += 1
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            has = "is missing" if found is None else f"{found} is installed"
            clashes.setdefault(
                str(requirement).partition(";")[0].strip(),
                f"{requirement.name} {has}, {needed_by} needs {_format_specifier(requirement)}",
            )
    if not clashes:
        return CheckResult(name="packages", verdict="ok", facts=f"{num_seen} requirements are met")
    shown = list(clashes.values())[:_MAX_CLASHES_SHOWN]
    more = f", and {len(clashes) - len(shown)} more" if len(clashes) > len(shown) else ""
    return CheckResult(
        name="packages", verdict="broken", facts="; ".join(shown) + more, remedy=install_command(*clashes)
    )


def _walk(lookup: PackageLookup) -> Iterator[tuple[Requirement, str, str | None]]:
    """Yield each applicable requirement, its origin and the installed version.

    Each package is visited once.
    """
    waiting, seen = [_ROOT], {_ROOT}
    while waiting:
        name = waiting.pop()
        for text in lookup(name)[1]:
            requirement = _read(text)
            if requirement is None:
                continue
            found = _version(lookup, requirement.name)
            yield requirement, name, found
            key = canonicalize_name(requirement.name)
            if found is not None and key not in seen:
                seen.add(key)
                waiting.append(requirement.name)


def _read(text: str) -> Requirement | None:
    """Return the requirement if it applies to this platform without extras.

    None otherwise, also for requirements that cannot be parsed.
    """
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    holds = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    return requirement if holds else None


def _version(lookup: PackageLookup, name: str) -> str | None:
    try:
        return lookup(name)[0]
    except PackageNotFoundError:
        return None


def _format_specifier(requirement: Requirement) -> str:
    return str(requirement.specifier) or "any version"


def _installed_package(name: str) -> tuple[str, list[str]]:
    found = distribution(name)
    return found.version, found.requires or []
