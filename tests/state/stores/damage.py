"""Ways to damage a file, as a hypothesis strategy.

Bad disk, crash, wrong copy.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

Damage = Callable[[Path, random.Random], None]


def flip_bits(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(generator.randint(1, 8)):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)


def flip_bits_at_the_head(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(generator.randint(1, 3)):
        data[generator.randrange(min(len(data), 200))] = generator.randrange(256)
    path.write_bytes(data)


def overwrite_a_run(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start, length = generator.randrange(len(data)), generator.randint(1, 5000)
    data[start : start + length] = generator.randbytes(len(data[start : start + length]))
    path.write_bytes(data)


def write_no_utf8(path: Path, generator: random.Random) -> None:
    """Replace letters (names, text, JSON) by bytes that are not UTF-8."""
    data = bytearray(path.read_bytes())
    letters = [index for index, byte in enumerate(data) if 0x61 <= byte <= 0x7A] or [0]
    data[generator.choice(letters)] = 0xFF
    path.write_bytes(data)


def zero_a_block(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    block = generator.randrange(1 + (len(data) - 1) // 4096) * 4096
    data[block : block + 4096] = bytes(len(data[block : block + 4096]))
    path.write_bytes(data)


def swap_blocks(path: Path, generator: random.Random) -> None:
    data = path.read_bytes()
    blocks = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    generator.shuffle(blocks)
    path.write_bytes(b"".join(blocks))


def truncate(path: Path, generator: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: generator.randrange(path.stat().st_size)])


def append(path: Path, generator: random.Random) -> None:
    path.write_bytes(path.read_bytes() + generator.randbytes(generator.randint(1, 9000)))


def replace_by_noise(path: Path, generator: random.Random) -> None:
    path.write_bytes(generator.randbytes(generator.randint(1, 20_000)))


def empty(path: Path, generator: random.Random) -> None:
    path.write_bytes(b"")


def swap_with_a_neighbor(path: Path, generator: random.Random) -> None:
    others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
    path.write_bytes(generator.choice(others).read_bytes() if others else b"")


def put_a_directory(path: Path, generator: random.Random) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_text("foreign")


def put_a_dangling_link(path: Path, generator: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nothing") / "here")


def forbid(path: Path, generator: random.Random) -> None:
    """Remove the file's permissions, which root ignores."""
    path.chmod(0)


def leave_side_files(path: Path, generator: random.Random) -> None:
    """Put a foreign journal or log, or a directory, beside the file."""
    side = path.with_name(path.name + generator.choice(["-wal", "-journal", "-shm"]))
    side.unlink(missing_ok=True)
    match generator.randrange(3):
        case 0:
            side.mkdir()
        case 1:
            side.write_bytes(generator.randbytes(generator.randint(1, 9000)))
        case _:
            shutil.copy(path, side)


DAMAGES: tuple[Damage, ...] = (
    flip_bits, flip_bits_at_the_head, overwrite_a_run, write_no_utf8, zero_a_block, swap_blocks, truncate,
    append, replace_by_noise, empty, swap_with_a_neighbor, put_a_directory, put_a_dangling_link, forbid,
    leave_side_files,
)  # fmt: skip

damages = st.tuples(st.sampled_from(DAMAGES), st.integers(0, 2**32))
