"""`mlxctl cache` for a directory that no server uses."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer

from mlxctl.cli import app
from mlxctl.cli.inspector.disk_explanation import explain_on_disk
from mlxctl.cli.inspector.local_models import LocalModels
from mlxctl.ir.tokens import Salt, Tokens, pack
from mlxctl.library import demo
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, chunk_key, root_key
from mlxctl.prefix_cache.disk.inspection import DiskEntry, DiskInspector
from mlxctl.prefix_cache.disk.manifest import Manifest
from mlxctl.prefix_cache.index import PrefixIndex
from mlxctl.prefix_cache.packing import Record
from mlxctl.state.settings import resolve
from tests.prefix_cache.disk_records import (
    NAMESPACE,
    closed,
    conversation,
    opened,
    publish_conversation,
    store,
    store_tokens,
)

SEGMENT = "prefixes/00000000.segment"
# Two conversations with three chunks and two states each.
NUM_RECORDS = 10
# Two full chunks of tokens and a part.
TRUNK = "You are a careful agent and read every file twice. " * 60
runner = CliRunner()


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed directory with two conversations; disk limits are ignored."""
    monkeypatch.setenv("MLXCTL_ENGINE_CACHE_MIN_FREE_BYTES", "0")
    directory = tmp_path / "cache"
    tier = opened(directory)
    store(tier, 1, 2)
    closed(tier)
    return directory


def run(directory: Path, *arguments: str, code: int = 0) -> str:
    """Return the command's output on both streams."""
    result = runner.invoke(app, ["cache", *arguments, "--dir", str(directory)])
    assert result.exit_code == code, result.output
    return result.output


def cut_short(directory: Path) -> None:
    os.truncate(directory / SEGMENT, (directory / SEGMENT).stat().st_size - 1)


def flip_a_bit(directory: Path) -> None:
    data = bytearray((directory / SEGMENT).read_bytes())
    data[-1] ^= 1
    (directory / SEGMENT).write_bytes(data)


def remove(directory: Path) -> None:
    (directory / SEGMENT).unlink()


def exchange(directory: Path) -> None:
    """Swap two records of the same length."""
    manifest = Manifest.read_only(directory / "prefixes" / "manifest.sqlite")
    one, other = [record.extent for record in manifest.records() if record.position == 512]
    manifest.close()
    assert one.num_bytes == other.num_bytes
    data = (directory / SEGMENT).read_bytes()
    middle = data[one.end : other.offset]
    exchanged = data[other.offset : other.end] + middle + data[one.offset : one.end]
    (directory / SEGMENT).write_bytes(data[: one.offset] + exchanged + data[other.end :])


def test_verify_reports_intact_directory(filled: Path) -> None:
    report = json.loads(run(filled, "verify", "--json"))

    assert run(filled, "verify").startswith(f"ok: {NUM_RECORDS} records")
    assert (report["is_sound"], report["num_records"], report["findings"]) == (True, NUM_RECORDS, [])


@pytest.mark.parametrize(
    ("damage", "problem", "num"),
    [
        (cut_short, "truncated", 1),
        (flip_a_bit, "damaged", 1),
        (remove, "missing", NUM_RECORDS),
        (exchange, "foreign", 2),
    ],
)
def test_verify_names_corrupt_records_and_exits_with_1(
    filled: Path, damage: Callable[[Path], None], problem: str, num: int
) -> None:
    damage(filled)

    report = json.loads(run(filled, "verify", "--json", code=1))

    assert {name: count for name, count in report["num_problems"].items() if count} == {problem: num}
    assert run(filled, "verify", code=1).startswith(f"not sound: {num} {problem};")


def test_verify_works_while_a_server_uses_the_directory(filled: Path) -> None:
    tier = opened(filled)
    assert run(filled, "verify").startswith("ok")
    closed(tier)


def test_empty_directory_is_a_one_line_message(tmp_path: Path) -> None:
    output = run(tmp_path, "verify", code=1)

    assert output == f"mlxctl: there is no prefix cache in {str(tmp_path)!r}\n"


def leaves(directory: Path) -> list[str]:
    """Return the keys that `ls` lists."""
    return [line.split()[0] for line in run(directory, "ls").splitlines()[2:]]


def test_ls_on_disk_needs_no_server(filled: Path) -> None:
    chunks = json.loads(run(filled, "ls", "--json"))

    assert len(leaves(filled)) == 2
    assert len(chunks) == 6
    assert {(chunk["num_hits"], chunk["used_at"], chunk["memory_bytes"]) for chunk in chunks} == {
        (None, None, 0)
    }
    assert all(line.endswith("disk  (unknown model)") for line in run(filled, "ls").splitlines()[2:])
    assert len(run(filled, "tree").splitlines()) == 3


def test_stats_on_disk_show_bytes_and_records(filled: Path) -> None:
    report = json.loads(run(filled, "stats", "--json"))["cache_disk"]

    assert (report["num_chunks"], report["num_states"], report["num_dropped"]) == (6, 4, None)
    assert report["file_bytes"] == (filled / SEGMENT).stat().st_size >= report["num_bytes"]
    assert "of 10.7 GB, 6 chunks, 4 states" in run(filled, "stats")


def test_pinned_entries_survive_clear_and_unpinned_do_not(filled: Path) -> None:
    one, other = leaves(filled)

    assert run(filled, "pin", one) == "1 pinned\n"
    assert run(filled, "clear") == "3 chunks dropped, 3 left\n"
    assert leaves(filled) == [one]
    assert run(filled, "unpin", one) == "1 unpinned\n"
    assert run(filled, "clear") == "3 chunks dropped, 0 left\n"
    assert other
    assert not (filled / SEGMENT).exists()


def test_clear_removes_one_branch(filled: Path) -> None:
    one, other = leaves(filled)

    assert run(filled, "clear", one) == "3 chunks dropped, 3 left\n"
    assert leaves(filled) == [other]


def test_gc_removes_corrupt_records(filled: Path) -> None:
    flip_a_bit(filled)

    assert json.loads(run(filled, "gc", "--json"))["num_damaged"] == 1
    assert run(filled, "verify").startswith(f"ok: {NUM_RECORDS - 1} records")


def test_gc_enforces_the_size_limit_of_the_settings(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXCTL_ENGINE_CACHE_DISK_BYTES", str((filled / SEGMENT).stat().st_size - 1))

    report = json.loads(run(filled, "gc", "--json"))

    assert report["num_changed"] >= 1
    assert report["bytes_after"] < report["bytes_before"]


def test_default_directory_is_that_of_serve(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(filled.parent))
    filled.rename(filled.parent / "mlxctl")

    assert len(runner.invoke(app, ["cache", "ls", "--disk"]).output.splitlines()) == 4
    assert runner.invoke(app, ["cache", "verify"]).output.startswith("ok")


@pytest.mark.parametrize("arguments", [["gc"], ["clear"], ["pin", "KEY"]])
def test_directory_in_use_by_a_server_is_not_changed(filled: Path, arguments: list[str]) -> None:
    key = leaves(filled)[0]
    tier = opened(filled)

    output = run(filled, *(argument.replace("KEY", key) for argument in arguments), code=1)
    closed(tier)

    assert "is used by another mlxctl" in output
    assert len(leaves(filled)) == 2


def test_url_and_directory_exclude_each_other(filled: Path) -> None:
    assert "give one of them" in run(filled, "ls", "--url", "http://127.0.0.1:9", code=2)


def test_export_and_import_copy_all_records(filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "prefixes.mlxa"

    assert run(filled, "export", str(file)).startswith(f"{NUM_RECORDS} records, ")
    assert (
        run(filled, "import", str(file))
        == f"0 records imported, {NUM_RECORDS} already stored, 0 over the size limit\n"
    )
    report = json.loads(run(tmp_path / "other", "import", str(file), "--json"))

    assert report == {"num_taken": NUM_RECORDS, "num_known": 0, "num_without_room": 0}
    assert leaves(tmp_path / "other") == leaves(filled)


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    """A directory with two demo conversations that share a prefix."""
    tokenizer = Tokenizer.from_file(str(demo.MODEL_DIR / "tokenizer.json"))
    tier = opened(tmp_path / "cache")
    tier.set_model_name(NAMESPACE, demo.MODEL_NAME)
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    for tail in ("Tell me of boats.", "Tell me of hills."):
        store_tokens(tier, index, pack(tokenizer.encode(f"{TRUNK}{tail}", add_special_tokens=False).ids))
    closed(tier)
    return tmp_path / "cache"


def test_show_on_disk_decodes_text_with_the_models_tokenizer(readable: Path) -> None:
    report = run(readable, "show", leaves(readable)[0])

    assert "Tell me of" in report
    assert " ".join(TRUNK.split()[:6]) in report
    assert "boats." in run(readable, "ls")


def test_diff_on_disk_compares_two_branches(readable: Path) -> None:
    report = json.loads(run(readable, "diff", *leaves(readable), "--json"))

    assert report["before"].endswith("Tell me of ")
    assert {report["one"], report["other"]} == {"boats.", "hills."}
    assert report["num_shared_tokens"] == 1506


def test_show_without_tokenizer_names_text_as_unknown(filled: Path) -> None:
    one, other = leaves(filled)

    assert "its model is neither served nor on this machine" in run(filled, "show", one)
    assert "the text of a branch is unknown" in run(filled, "diff", one, other, code=1)


def request_file(directory: Path, *questions: str) -> str:
    messages = [{"role": "user", "content": f"{TRUNK}{question}"} for question in questions]
    (directory / "request.json").write_text(json.dumps({"model": "demo", "messages": messages}))
    return str(directory / "request.json")


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A directory as left by a server of the demo model."""
    models = LocalModels(resolve(environment={}))
    tier = opened(tmp_path / "cache")
    tier.set_model_name(NAMESPACE, demo.MODEL_NAME)
    index: PrefixIndex[Record] = PrefixIndex(max_bytes=1 << 40)
    asked = {"model": "demo", "messages": [{"role": "user", "content": f"{TRUNK}Tell me of boats."}]}
    prompt = models.prompt(demo.MODEL_NAME, "chat", asked)
    assert prompt is not None
    store_tokens(tier, index, pack(prompt.token_ids))
    closed(tier)
    return tmp_path / "cache"


def test_explain_on_disk_finds_cached_tokens(served: Path, tmp_path: Path) -> None:
    same = json.loads(run(served, "explain", request_file(tmp_path, "Tell me of boats."), "--json"))
    other = json.loads(run(served, "explain", request_file(tmp_path, "Tell me of hills."), "--json"))

    assert same["num_cached_tokens"] == same["num_prompt_tokens"] - 1 == same["num_known_tokens"] - 1
    assert (
        2 * CHUNK_TOKENS
        < other["num_cached_tokens"]
        == other["num_known_tokens"]
        < other["num_prompt_tokens"]
    )
    assert other["before"].endswith("Tell me of ")
    assert (other["here"][:6], other["there"][:6]) == ("hills.", "boats.")
    assert (other["place"], other["message"], other["tool"]) == ("message 1 (user)", 0, None)
    report = run(served, "explain", request_file(tmp_path, "Tell me of hills."))
    assert "tokens are on disk" in report
    assert f"from token {other['num_known_tokens']:,}  in message 1 (user)" in report
    assert same["place"] is None


def test_explain_on_disk_names_changed_message_and_tool(tmp_path: Path) -> None:
    def body(tool: str, question: str) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("clock", tool)
        ]
        turns = [("system", TRUNK), ("user", "Where to?"), ("assistant", "To the sea."), ("user", question)]
        return {
            "model": "demo",
            "tools": tools,
            "messages": [{"role": role, "content": text} for role, text in turns],
        }

    tier = opened(tmp_path / "cache")
    tier.set_model_name(NAMESPACE, demo.MODEL_NAME)
    prompt = LocalModels(resolve(environment={})).prompt(demo.MODEL_NAME, "chat", body("weather", "When?"))
    assert prompt is not None
    store_tokens(tier, PrefixIndex(max_bytes=1 << 40), pack(prompt.token_ids))
    closed(tier)

    def home(tool: str, question: str) -> tuple[str, int | None, int | None]:
        (tmp_path / "request.json").write_text(json.dumps(body(tool, question)))
        report = json.loads(run(tmp_path / "cache", "explain", str(tmp_path / "request.json"), "--json"))
        return report["place"], report["message"], report["tool"]

    assert home("weather", "Why?") == ("message 4 (user)", 3, None)
    assert home("tides", "When?") == ("tool 2 (tides)", None, 1)


def test_explain_on_disk_matches_images_by_content(tmp_path: Path) -> None:
    red, blue = Salt(700, 800, b"red"), Salt(700, 800, b"blue")
    tier = opened(tmp_path)
    tier.set_model_name(NAMESPACE, "tiny")
    assert tier.store(
        publish_conversation(PrefixIndex(max_bytes=1 << 40), 1, salts=[red]), deadline=time.monotonic() + 30
    )
    closed(tier)
    inspector = DiskInspector.open(tmp_path)

    def num_known(*salts: Salt) -> int:
        tokens = conversation(1, 1200)
        report = explain_on_disk(
            inspector.entries(), "tiny", tokens, lambda *_: None, salts=salts, now=time.time()
        )
        return report.num_known_tokens

    assert [num_known(red), num_known(blue), num_known()] == [1200, 700, 700]
    inspector.close()


def disk_entry(tokens: Tokens, *, after: DiskEntry | None = None, used: int = 0) -> DiskEntry:
    start = after.end if after else 0
    parent = after.key if after else None
    return DiskEntry(
        key=chunk_key(parent or root_key(NAMESPACE), tokens.tobytes(), start=start),
        parent=parent,
        model="tiny",
        namespace=NAMESPACE,
        start=start,
        end=start + len(tokens),
        tokens=tokens.tobytes(),
        salts=(),
        num_bytes=1,
        positions=(),
        expires_at=None,
        is_pinned=False,
        used=used,
        records=(),
    )


@pytest.mark.parametrize("used", [(1, 2), (2, 1)])
def test_explain_on_disk_shows_the_continuation_used_last(used: tuple[int, int]) -> None:
    shared = disk_entry(pack(range(512)))
    entries = [disk_entry(pack([7, 7]), after=shared, used=used[0])]
    entries += [disk_entry(pack([9, 9]), after=shared, used=used[1])]

    def text_of(_: str, tokens: Tokens) -> str:
        return str(list(tokens))

    report = explain_on_disk([shared, *entries], "tiny", pack(range(513)), text_of, now=time.time())
    assert (report.num_known_tokens, report.there) == (512, "[7, 7]" if used[0] > used[1] else "[9, 9]")


def test_explain_last_on_disk_is_an_error(served: Path, tmp_path: Path) -> None:
    assert "only a server keeps its last requests" in run(served, "explain", code=2)


def test_explain_on_disk_with_unknown_model_is_an_error(filled: Path, tmp_path: Path) -> None:
    assert "no model whose name is known" in run(filled, "explain", request_file(tmp_path, "Hi"), code=1)
    tier = opened(filled)
    tier.set_model_name(NAMESPACE, "gone")
    closed(tier)
    assert "'gone' is not on this machine" in run(filled, "explain", request_file(tmp_path, "Hi"), code=1)


@pytest.mark.parametrize(
    ("num_tokens", "num_cached", "num_known"), [(1300, 1200, 1200), (1100, 512, 1100), (300, 0, 300)]
)
def test_recurrent_layers_resume_only_from_a_stored_state(
    filled: Path, num_tokens: int, num_cached: int, num_known: int
) -> None:
    tier = opened(filled)
    tier.set_model_name(NAMESPACE, "tiny")
    closed(tier)
    inspector = DiskInspector.open(filled)
    report = explain_on_disk(
        inspector.entries(), "tiny", conversation(1, num_tokens), lambda *_: None, now=time.time()
    )
    inspector.close()

    assert (report.num_cached_tokens, report.num_known_tokens) == (num_cached, num_known)
