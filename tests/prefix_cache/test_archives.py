"""Export of the disk tier into an archive, and import.

Complete or not at all.
"""

import asyncio
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.ir.errors import StoreError
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.disk import maintenance
from mlxctl.prefix_cache.disk.inspection import DiskInspector
from mlxctl.prefix_cache.disk.transfer import Exported, Imported, export_archive, import_archive
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from tests.engine.harness import running_engine
from tests.prefix_cache.disk_records import (
    NAMESPACE,
    closed,
    conversation,
    opened,
    publish_conversation,
    read_all,
    store,
)
from tests.prefix_cache.test_disk import on_disk, tokens
from tests.prefix_cache.test_reuse import END_OF_MESSAGE, FAMILIES, ask, cold, text

# A conversation of 1200 tokens has three chunks and two states.
NUM_RECORDS = 5
HOUR = 3600


def quiet(num_done: int, num_bytes: int) -> None:
    assert 0 <= num_done <= num_bytes


def exported(directory: Path, file: Path) -> Exported:
    return export_archive(directory, file, quiet)


def imported(directory: Path, file: Path, *, max_bytes: int = 1 << 30, min_free_bytes: int = 0) -> Imported:
    return import_archive(
        directory, file, max_bytes=max_bytes, min_free_bytes=min_free_bytes, on_progress=quiet
    )


def with_conversations(directory: Path, *seeds: int, num_tokens: int = 1200) -> Path:
    tier = opened(directory)
    store(tier, *seeds, num_tokens=num_tokens)
    closed(tier)
    return directory


def listed(directory: Path) -> list[tuple[bytes, tuple[int, ...], bool]]:
    inspector = DiskInspector.open(directory)
    try:
        assert inspector.verify() == []
        return sorted((entry.key, entry.positions, entry.is_pinned) for entry in inspector.entries())
    finally:
        inspector.close()


def assert_whole(directory: Path, num_records: int) -> None:
    tier = opened(directory)
    tier.index.check_integrity()
    assert read_all(tier) == (num_records, 0)
    closed(tier)


@pytest.mark.parametrize("family", FAMILIES)
def test_imported_archive_restores_prompt_in_new_engine(tmp_path: Path, family: str) -> None:
    async def answered() -> tuple[list[list[int]], int]:
        async with running_engine(family, settings=on_disk(tmp_path / "cache")) as client:
            output = await ask(client, family, prompt)
        return tokens([output]), output.num_cached

    prompt = [*text(400, 1), END_OF_MESSAGE, *text(40, 2)]
    asyncio.run(answered())
    exported(tmp_path / "cache", tmp_path / "file")
    maintenance.clear(tmp_path / "cache")
    assert imported(tmp_path / "cache", tmp_path / "file").num_taken > 0

    answer, num_cached = asyncio.run(answered())

    assert num_cached >= 401
    assert answer == asyncio.run(cold(family, [prompt]))


def test_archive_round_trip_keeps_records_and_pins(tmp_path: Path) -> None:
    source = with_conversations(tmp_path / "source", 1, 2)
    with_conversations(source, 1, num_tokens=1400)
    maintenance.set_pins(source, [listed(source)[0][0]], is_pinned=True)

    done = exported(source, tmp_path / "file")

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert done.num_left_out == 0
    assert imported(tmp_path / "target", tmp_path / "file") == Imported(
        num_taken=done.num_records, num_known=0, num_without_room=0
    )
    assert listed(tmp_path / "target") == listed(source)
    assert_whole(tmp_path / "target", done.num_records)


def test_image_salts_survive_restart_and_archive(tmp_path: Path) -> None:
    images = [(Salt(700, 800, digest),) for digest in (b"red", b"blue")]
    tier = opened(tmp_path / "source")
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    for image in images:
        assert tier.store(publish_conversation(index, 1, salts=image), deadline=time.monotonic() + 30)
    closed(tier)
    exported(tmp_path / "source", tmp_path / "file")
    imported(tmp_path / "target", tmp_path / "file")

    # The chunk before the image is stored once, the two after it once for each image, with the last state.
    for directory in (tmp_path / "source", tmp_path / "target"):
        assert len(listed(directory)) == 5
        assert_whole(directory, 8)
        tier = opened(directory)
        matches = [tier.index.match(NAMESPACE, conversation(1, 1300), image) for image in images]
        without = tier.index.match(NAMESPACE, conversation(1, 1300))
        closed(tier)
        assert [match.num_tokens for match in matches] == [1200, 1200]
        assert matches[0].chunks[1:] != matches[1].chunks[1:]
        assert without.num_tokens == 700


def test_import_does_not_rewrite_stored_records(tmp_path: Path) -> None:
    exported(with_conversations(tmp_path / "source", 1, 2), tmp_path / "file")
    target = with_conversations(tmp_path / "target", 2, 3)

    done = imported(target, tmp_path / "file")

    assert done == Imported(num_taken=NUM_RECORDS, num_known=NUM_RECORDS, num_without_room=0)
    assert_whole(target, 3 * NUM_RECORDS)


def test_import_merges_longer_and_shorter_partial_chunks(tmp_path: Path) -> None:
    short = with_conversations(tmp_path / "short", 1)
    long = with_conversations(tmp_path / "long", 1, num_tokens=1400)
    exported(short, tmp_path / "short.file")
    exported(long, tmp_path / "long.file")

    imported(long, tmp_path / "short.file")
    imported(short, tmp_path / "long.file")

    assert listed(short) == listed(long)
    # Three chunks, and states at 512, 1200 and 1400.
    assert_whole(short, 6)
    assert_whole(long, 6)


def test_import_extends_lifetime_of_stored_parents(tmp_path: Path) -> None:
    exported(with_conversations(tmp_path / "source", 1, num_tokens=1400), tmp_path / "file")
    tier = opened(tmp_path / "target", clock=lambda: time.time() - 23 * HOUR)
    store(tier, 1)
    closed(tier)

    imported(tmp_path / "target", tmp_path / "file")

    inspector = DiskInspector.open(tmp_path / "target")
    expiries = [entry.expires_at for entry in inspector.entries()]
    inspector.close()
    assert len(expiries) == 3
    assert all(expiry is not None and expiry > time.time() + 20 * HOUR for expiry in expiries)


def test_import_without_room_skips_chunk_and_descendants(tmp_path: Path) -> None:
    exported(with_conversations(tmp_path / "source", *range(1, 9)), tmp_path / "file")
    max_bytes = (tmp_path / "file").stat().st_size // 3

    done = imported(tmp_path / "target", tmp_path / "file", max_bytes=max_bytes)

    assert done.num_taken > 0
    assert done.num_taken + done.num_without_room == 8 * NUM_RECORDS
    assert sum(path.stat().st_size for path in (tmp_path / "target").rglob("*.segment")) <= max_bytes
    assert_whole(tmp_path / "target", done.num_taken)
    assert imported(tmp_path / "full", tmp_path / "file", min_free_bytes=1 << 60).num_taken == 0


def test_export_leaves_out_damaged_records(tmp_path: Path) -> None:
    source = with_conversations(tmp_path / "source", 1, 2)
    segment = source / "prefixes" / "00000000.segment"
    data = bytearray(segment.read_bytes())
    data[len(data) // 10] ^= 1
    segment.write_bytes(data)

    done = exported(source, tmp_path / "file")

    # The first chunk is damaged, so the whole conversation is left out.
    assert (done.num_records, done.num_left_out) == (NUM_RECORDS, NUM_RECORDS)
    assert imported(tmp_path / "target", tmp_path / "file").num_taken == NUM_RECORDS


@given(seed=st.integers(0, 2**32), harm=st.sampled_from(["flip", "cut", "append"]))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_modified_archive_is_rejected_whole(tmp_path: Path, seed: int, harm: str) -> None:
    file = tmp_path / "file"
    if not file.exists():
        exported(with_conversations(tmp_path / "source", 1), file)
    generator, data = random.Random(seed), bytearray(file.read_bytes())
    place = generator.randrange(len(data))
    match harm:
        case "flip":
            data[place] ^= 1 << generator.randrange(8)
        case "cut":
            del data[place:]
        case _:
            data += generator.randbytes(1 + place % 100)
    (tmp_path / "changed").write_bytes(data)

    with pytest.raises(StoreError, match="is not taken"):
        imported(tmp_path / "target", tmp_path / "changed")

    assert not (tmp_path / "target").exists()


def test_unusable_paths_give_one_line_error(tmp_path: Path) -> None:
    source = with_conversations(tmp_path / "source", 1)
    exported(source, tmp_path / "file")
    with pytest.raises(StoreError, match="is there already"):
        exported(source, tmp_path / "file")
    with pytest.raises(StoreError, match="cannot write"):
        exported(source, tmp_path / "nowhere" / "file")
    with pytest.raises(StoreError, match="cannot import"):
        imported(source, tmp_path / "nothing")
    tier = opened(source)
    with pytest.raises(StoreError, match="used by another"):
        imported(source, tmp_path / "file")
    closed(tier)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "source"]
