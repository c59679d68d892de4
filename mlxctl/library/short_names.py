"""Short names of models on the hub, in Ollama's spelling.

A short name is one of the table, the part of its repository after the slash, or that part without the format
of the weights and `Meta-`. Case does not count, nor does `:latest`; a hyphen is the same as the colon, and
may be left out between a letter and a digit. Pure but for reading the table.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mlxctl.library.names import plain_name

_FORMAT = re.compile(r"(-(\d+bit|bf16|fp16|mxfp4|q8|qat|dwq|mlx|lm))+$")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([mb])\b")
_WITH_SIZE = re.compile(r"(.+?)(?::(.*)|-(\d+(?:\.\d+)?[mb]\b.*))?")
_MOST_NEAR = 4


@cache
def read_short_names() -> Mapping[str, list[str]]:
    """Return the short names by repository, in the table's order."""
    text = Path(__file__).with_name("short_names.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def repository_of_short_name(name: str) -> str | None:
    """Return the repository that the table knows as `name`, such as `qwen3:4b`.

    None for an unknown name, and for a full one, ORGANIZATION/NAME.
    """
    wanted = _normal(name)
    for repository, names in read_short_names().items():
        if wanted in map(_normal, spellings(repository, names)):
            return repository
    return None


def spellings(repository: str, names: list[str]) -> list[str]:
    """Return all short names of a repository.

    Those of the table, and those that follow from its own name.
    """
    own = repository.rpartition("/")[2]
    return [*names, own, _FORMAT.sub("", own.lower()).removeprefix("meta-")]


def full_name(name: str) -> str:
    """Return the repository of a short name or a pasted address.

    Other names are returned unchanged.
    """
    name = plain_name(name)
    return repository_of_short_name(name) or name


def near_short_names(name: str) -> list[str]:
    """Return short names near an unknown one.

    Those of its family in the nearest sizes, else families that are spelled alike, in its size.
    """
    families = _families()
    family, size = _split(name)
    if family in families:
        nearest = sorted(families[family], key=lambda each: _distance(each, size))[:_MOST_NEAR]
        return [each for each in families[family] if each in nearest]
    close = difflib.get_close_matches(family, families, n=_MOST_NEAR, cutoff=0.6)
    return [min(families[each], key=lambda known: _distance(known, size)) for each in close]


def _normal(name: str) -> str:
    joined = re.sub(r"(?<=[a-z])[-:](?=\d)", "", name.lower().removesuffix(":latest"))
    return joined.replace(":", "-")


def _families() -> dict[str, list[str]]:
    """Return the names of the table by their families in normal form."""
    families: dict[str, list[str]] = {}
    for names in read_short_names().values():
        for name in names:
            families.setdefault(_split(name)[0], []).append(name)
    return families


def _split(name: str) -> tuple[str, str]:
    """Return the family of a name in normal form, and its size.

    The size is as written, or empty.
    """
    found = _WITH_SIZE.fullmatch(name.lower())
    return (_normal(found[1]), found[2] or found[3] or "") if found else (_normal(name), "")


def _distance(name: str, size: str) -> float:
    """Return how far the size in a name is from another one.

    As the logarithm of their ratio. The shortest name is nearest to no size.
    """
    ours, theirs = _billions(_split(name)[1]), _billions(size)
    if theirs is None:
        return len(name)
    return math.inf if ours is None else abs(math.log(ours / theirs))


def _billions(size: str) -> float | None:
    found = _SIZE.search(size)
    number = float(found[1]) / (1000 if found[2] == "m" else 1) if found else 0.0
    return number or None
