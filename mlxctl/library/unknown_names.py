"""Errors for unknown names: what the caller may have meant."""

import difflib
from collections.abc import Mapping, Sequence

from mlxctl.library.names import is_repository
from mlxctl.library.short_names import full_name, near_short_names, read_short_names

# A full name differs from a known one by a slip of the hand, and shares its beginning with most others.
_SIMILAR_REPOSITORY = 0.9


def describe_unknown(name: str, known: Mapping[str, str]) -> str:
    """Return an error with close names, or how to download the model.

    `known` are the full names of models by what they are known as.
    """
    missing = f"there is no model directory at {name!r} and no model of this name in the library"
    return f"{missing}; {_offer(name, known)}"


def describe_ambiguous(name: str, names: Sequence[str]) -> str:
    """Return an error for a name that several models share."""
    return f"{name!r} may be {' or '.join(names)}; give the full name"


def describe_no_repository(name: str) -> str:
    """Return an error for a name that no hub repository can have."""
    hint = near_hint(name) or "`mlxctl models search` finds them"
    return f"{name!r} is not a hub repository; the form is ORGANIZATION/NAME; {hint}"


def near_hint(name: str) -> str | None:
    """Return the short names near an unknown one.

    None for a name with a slash, and if there are none.
    """
    near = near_short_names(name) if "/" not in name else []
    return f"short names near it: {', '.join(near)}" if near else None


def _offer(name: str, known: Mapping[str, str]) -> str:
    repository = full_name(name)
    if repository != name and is_repository(repository):
        return f"to download {repository}: mlxctl models pull {repository if '/' in name else name}"
    if ":/" in name:
        return "of an address on the hub, name ORGANIZATION/NAME; revisions other than main are not supported"
    offers = []
    if close := difflib.get_close_matches(name, known, n=3, cutoff=0.6):
        offers.append(f"did you mean {' or '.join(dict.fromkeys(known[each] for each in close))}?")
    if hint := near_hint(name):
        offers.append(hint)
    if not offers and "/" in name and is_repository(name):
        similar = difflib.get_close_matches(name, read_short_names(), n=1, cutoff=_SIMILAR_REPOSITORY)
        meant = similar[0] if similar else "it from the hub"
        return f"to download {meant}: mlxctl models pull {similar[0] if similar else name}"
    others = "`mlxctl models ls` lists models, `mlxctl models search` finds others to download"
    return "; ".join(offers) or others
