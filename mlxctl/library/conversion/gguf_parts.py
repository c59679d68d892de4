"""A GGUF model in one file, or in several of llama.cpp.

The parts are NAME-00001-of-00003.gguf and so on. The first has the metadata, each has some of the tensors.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from mlxctl.library.conversion.gguf_file import MAX_TENSORS, GgufFile, GgufTensor, read_gguf

# All are open at once, and macOS allows 256 files.
MAX_PARTS = 100
_SPLIT_NAME = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GgufParts:
    """The files of a model, in order.

    `whole` has the metadata of the first one, and the tensors of all with the numbers of their files.
    """

    whole: GgufFile
    paths: tuple[Path, ...]


def name_of_parts(file: Path) -> str:
    """Return the file's name without its number among parts, and without `.gguf`."""
    match = _SPLIT_NAME.fullmatch(file.stem)
    return match["name"] if match else file.stem


def read_parts(path: Path) -> GgufParts:
    """Read the headers of a file and its other parts. Raises ConversionFailed."""
    first = read_gguf(path)
    count = first.integer("split.count", 1, least=0)
    if count <= 1:
        return GgufParts(first, (path,))
    paths = _paths(first, count)
    tensors = dict(first.tensors)
    for number, other in enumerate(paths[1:], start=1):
        for tensor in _read_part(other, number, count).tensors.values():
            if tensor.name in tensors:
                raise first.wrong(f"the tensor {tensor.name!r} is in two of its parts")
            tensors[tensor.name] = replace(tensor, part=number)
    _check_number(first, tensors)
    return GgufParts(GgufFile(path, first.metadata, tensors), tuple(paths))


def _paths(first: GgufFile, count: int) -> list[Path]:
    """Return the files of all parts. Raises ConversionFailed if one is missing."""
    if count > MAX_PARTS:
        raise first.wrong(f"it is one of {count:,} parts; at most {MAX_PARTS} are read")
    number = first.integer("split.no", 0, least=0) + 1
    match = _SPLIT_NAME.fullmatch(first.path.stem)
    name, suffix = name_of_parts(first.path), first.path.suffix
    paths = [first.path.with_name(f"{name}-{each:05}-of-{count:05}{suffix}") for each in range(1, count + 1)]
    if number != 1:
        raise first.wrong(f"it is part {number} of {count}; name the first one, {paths[0].name!r}")
    if match is None or first.path != paths[0]:
        raise first.wrong(
            f"it is the first of {count} parts, and must be named {paths[0].name!r}, as the others are"
        )
    if missing := [each.name for each in paths if not each.exists()]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise first.wrong(f"it has {count} parts, of which {missing[0]!r}{more} is missing beside it")
    return paths


def _read_part(path: Path, number: int, count: int) -> GgufFile:
    part = read_gguf(path)
    found = part.integer("split.no", 0, least=0), part.integer("split.count", 1, least=0)
    if found != (number, count):
        raise part.wrong(
            f"by its metadata it is part {found[0] + 1} of {found[1]}, and not part {number + 1} of {count}"
        )
    return part


def _check_number(first: GgufFile, tensors: dict[str, GgufTensor]) -> None:
    expected = first.integer("split.tensors.count", len(tensors), least=0)
    if len(tensors) != expected or len(tensors) > MAX_TENSORS:
        raise first.wrong(
            f"its parts have {len(tensors):,} tensors, and must have {min(expected, MAX_TENSORS):,}"
        )
