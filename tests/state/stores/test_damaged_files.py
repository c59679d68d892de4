"""Damaged files: a miss or an error at most, no wrong content.

The damaged file is set aside.
"""

import ast
import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.chat.conversation import ChatOptions
from mlxctl.chat.export import load_exported
from mlxctl.chat.preferences import Preferences
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.ir import StoredItem, StoredResponse
from mlxctl.ir.errors import Conflict, SettingsError, StoreError, StoreUnavailable
from mlxctl.ir.policy import ApiKey
from mlxctl.library.download_journal import Download, DownloadJournal
from mlxctl.prefix_cache.disk import maintenance, transfer
from mlxctl.prefix_cache.disk.inspection import DiskInspector
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.server.policy import SettingsPolicy
from mlxctl.server.policy.store_backend import StoredPolicy
from mlxctl.state.settings import resolve
from mlxctl.state.settings.editing import remove_alias, write_alias
from mlxctl.state.stores import (
    AgentStore,
    CapabilityStore,
    Exchange,
    Finding,
    MeasuredSpeed,
    ProbeRecord,
    ResponseStore,
    Session,
    SessionStore,
    SpeedStore,
    database_file,
    read_overrides,
    write_overrides,
)
from mlxctl.state.stores import SessionSummary as Summary
from mlxctl.state.stores.agents import read_agent_ids
from mlxctl.state.stores.audit import read_audit_key
from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord
from mlxctl.state.stores.damage import MAX_KEPT, set_aside_files
from mlxctl.state.stores.policy import PolicyStore
from tests.prefix_cache.disk_records import closed, opened, read_all, store
from tests.state.stores.damage import damages

MANIFEST, SEGMENT = "cache/prefixes/manifest.sqlite", "cache/prefixes/00000000.segment"
SQLITE_FILES = ["agents.sqlite", "responses.sqlite", "capabilities.sqlite", "speeds.sqlite", "chats.db"]
FILES = [
    *SQLITE_FILES,
    MANIFEST,
    SEGMENT,
    "cache/prefixes/lock",
    "mlxctl.toml",
    "capabilities.toml",
    "chat.json",
    "screen.json",
    "cache.archive",
    "policy.sqlite",
    "audit/audit.jsonl",
    "audit.key",
    "downloads/1.json",
]

WRITERS = {
    "bench/server_process.py": "the output of a measured server, in a temporary directory",
    "bench/report.py": "a report, which mlxctl never reads",
    "bench/result.py": "a result (tests/bench)",
    "cli/probe/report.py": "capabilities.toml",
    "library/conversion/gguf_import.py": "a new model, whole or not at all (tests/library/conversion)",
    "library/conversion/mlx_lm_conversion.py": "a new model, whole or not at all (tests/library/conversion)",
    "library/conversion/weight_writer.py": "a new model, whole or not at all (tests/library/conversion)",
    "cli/doctor/generation.py": "an empty settings file, in a temporary directory",
    "engine/ranks/ring.py": "addresses for MLX, in a temporary file that only it reads",
    "engine/speculation/policy/gate_store.py": "measured seconds (tests/engine/speculation)",
    "cli/speak.py": "an audio file, which mlxctl never reads",
    "cli/transcribe.py": "a transcript, which mlxctl never reads",
    "formats/adapters/media/audio_decoders.py": "audio that macOS decodes, in a temporary file",
    "formats/adapters/media/clips.py": "a clip that another process decodes, in a temporary directory",
    "formats/adapters/media/image_files.py": "an image that macOS decodes, in a temporary directory",
    "inference/preparation/process.py": "nothing: it discards the output of a process",
    "inference/remote/results.py": "nothing: it encodes audio in memory",
    "cli/inspector/rendering.py": "nothing: it truncates text",
    "cli/launch/background_server.py": "a log, which mlxctl never reads",
    "cli/launch/launched_server.py": "a process id, which is read only while its server holds a lock on it",
    "cli/launch/clients.py": "settings of a client, for that client",
    "library/download_journal.py": "downloads/1.json",
    "prefix_cache/disk/lock.py": "cache/prefixes/lock",
    "prefix_cache/disk/segments.py": SEGMENT,
    "prefix_cache/disk/transfer.py": "cache.archive",
    "probe/interview.py": "nothing: it writes audio in memory",
    "probe/speech_samples.py": "an audio file, in a temporary directory",
    "server/observe/background_log.py": "a log, which mlxctl never reads",
    "server/http/tls_key.py": "a decrypted TLS key, until the first handshake",
    "cli/service/manager.py": "the definition of a service, for the system",
    "state/settings/editing.py": "mlxctl.toml",
    "state/stores/agents.py": "nothing: it reads agents.sqlite",
    "state/stores/audit.py": "audit.key",
    "state/stores/audit_files.py": "audit/audit.jsonl",
    "state/stores/database_file.py": "agents.sqlite, responses.sqlite, capabilities.sqlite, speeds.sqlite, "
    "policy.sqlite, chats.db, manifest.sqlite; the index of the audit log (tests/state/stores/test_audit.py)",
    "state/stores/server_cards.py": "a card, written anew at each start (test_server_cards.py)",
    "state/stores/policy.py": "the name of a store that had keys; mlxctl only sees whether the file exists",
    "chat/export.py": "chat.json",
    "chat/external_editor.py": "the question in an editor, in a temporary directory",
    "chat/preferences.py": "screen.json",
    "chat/terminal.py": "a log, which mlxctl never reads",
    "chat/tools/workspace.py": "a file that the model writes for the user",
}
"""Every module that writes files, and which of FILES they are.

A new one adds its file to FILES, or the reason why not here.
"""

MESSAGES = [f'{{"role":"user","content":"message {number}"}}'.encode() * 20 for number in range(6)]


def test_table_lists_every_module_that_writes_files() -> None:
    package = Path(__file__).parents[3] / "mlxctl"
    modules = package.rglob("*.py")
    assert {str(path.relative_to(package)) for path in modules if writes(ast.parse(path.read_text()))} == set(
        WRITERS
    )


def writes(module: ast.Module) -> bool:
    """Whether the module calls a function that creates files."""
    for call in ast.walk(module):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        modes = [
            arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
        if name in {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "truncate"} or (
            name == "open" and any(set(mode) <= set("wxab+t") and set(mode) & set("wxa") for mode in modes)
        ):
            return True
        owner = ast.unparse(call.func)
        if owner in {"sqlite3.connect", "shutil.copy", "shutil.copyfile"} or (
            owner == "os.open" and "O_CREAT" in ast.unparse(call)
        ):
            return True
    return False


@pytest.fixture(scope="module")
def intact() -> Iterator[Path]:
    """A directory with one of each file, with content."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        home = Path(name) / "intact"
        home.mkdir()
        agents = AgentStore(home / "agents.sqlite", max_agents=9)
        for agent_id in ("one", "two"):
            agents.end_turn(agents.create("ann", agent_id, model="m", settings=b"{}"), MESSAGES, model="m")
        agents.close()
        responses = response_store(home)
        for number in range(3):
            responses.save("ann", response(number))
        responses.close()
        capabilities = CapabilityStore(home / "capabilities.sqlite")
        capabilities.save(RECORD)
        capabilities.close()
        use_speeds(home)
        read_policy(home).put_key(ApiKey(id="one", name="ann", sha256="0" * 64, scopes=(), created=1.0))
        sessions = SessionStore(home / "chats.db")
        for number in range(3):
            sessions.save(session(f"chat{number}"))
        sessions.close()
        tier = opened(home / "cache")
        store(tier, 1, 2)
        closed(tier)
        transfer.export_archive(home / "cache", home / "cache.archive", lambda done, total: None)
        write_alias(home / "mlxctl.toml", "short", "org/long-name")
        (home / "capabilities.toml").write_text(write_overrides([RECORD]))
        (home / "chat.json").write_text('{"model": "m", "messages": [{"role": "user", "content": "hello"}]}')
        preferences = Preferences(home / "screen.json")
        preferences.save_theme("nord")
        preferences.save_sampling(ChatOptions(temperature=0.5, top_k=7))
        audit_files(home).append([audit_record(number) for number in range(3)])
        read_audit_key(home / "audit.key")
        downloads(home).write([Download(repository="org/model", state="running")])
        (home / "downloads" / f"{os.getpid()}.json").rename(home / "downloads" / "1.json")
        yield home


SPEED = MeasuredSpeed(
    fingerprint="aa",
    machine="mac",
    model="org/model",
    decode_tokens_per_second=9.0,
    prompt_tokens_per_second=None,
    context_tokens=512,
    measured_at=1.0,
    version="1",
)
RECORD = ProbeRecord(
    fingerprint="aa",
    model="org/model",
    path="/models/model",
    probed_at=1000.0,
    round=1,
    findings=(
        Finding(
            question="chat",
            verdict="yes",
            reason="it does",
            exchanges=(Exchange(prompt="hi", output="hello"),),
        ),
    ),
)


def response(number: int) -> StoredResponse:
    item = StoredItem(id=f"item{number}", body=b'{"type":"message"}' * 50)
    before = f"resp{number - 1}" if number else None
    return StoredResponse(
        id=f"resp{number}", previous_id=before, body=b'{"object":"response"}', input=(item,), output=()
    )


def response_store(home: Path) -> ResponseStore:
    return ResponseStore(home / "responses.sqlite", max_bytes=10**6, ttl_seconds=10**6)


def session(name: str) -> Session:
    summary = Summary(id=name, title="a chat", model="m", started_at=1.0, used_at=2.0, num_messages=1)
    return Session(summary=summary, text="hello", body=b'[{"role": "user", "content": "hello"}]')


def use_agents(home: Path) -> None:
    agents = AgentStore(home / "agents.sqlite", max_agents=9)
    try:
        for agent in agents.page("ann", after=None, limit=9)[0]:
            assert agent.id in ("one", "two", "three")
            assert (agent.model, agent.settings) == ("m", b"{}")
            # A silently missing message would be a wrong prompt.
            assert [body for _, body in agents.messages(agent)] == (MESSAGES if agent.id != "three" else [])
        if agents.find("ann", "three") is None:
            agents.create("ann", "three", model="m", settings=b"{}")
        assert agents.begin_turn("ann", "three") is not None
        agents.delete("ann", "one")
    finally:
        agents.close()


def use_responses(home: Path) -> None:
    responses = response_store(home)
    try:
        found = [responses.find("ann", f"resp{number}") for number in range(3)]
        assert all(kept in (None, response(number)) for number, kept in enumerate(found))
        for number in range(3):
            chain = responses.conversation("ann", f"resp{number}")
            assert chain in (None, tuple(response(index).input[0] for index in range(number + 1)))
        responses.delete("ann", "resp0")
        responses.save("ann", response(7))
        assert responses.find("ann", "resp7") == response(7)
        responses.delete("ann", "resp7")
        assert responses.facts().num_responses <= 3
    finally:
        responses.close()


def use_capabilities(home: Path) -> None:
    capabilities = CapabilityStore(home / "capabilities.sqlite")
    try:
        capabilities.find("aa")
        capabilities.save(RECORD)
        assert capabilities.has_records()
    finally:
        capabilities.close()


def use_speeds(home: Path) -> None:
    speeds = SpeedStore(home / "speeds.sqlite")
    try:
        assert speeds.find("aa", "mac") in (None, SPEED)
        speeds.save(SPEED)
        assert speeds.find("aa", "mac") == SPEED
    finally:
        speeds.close()


def read_policy(home: Path) -> StoredPolicy:
    return StoredPolicy(PolicyStore(home / "policy.sqlite"), SettingsPolicy((), (), {}))


def check_policy(home: Path) -> None:
    """Check that the store has its key or is refused.

    Without a key any caller has access.
    """
    assert [key.name for key in read_policy(home).all_keys()] == ["ann"]


def use_sessions(home: Path) -> None:
    sessions = SessionStore(home / "chats.db")
    try:
        for summary in sessions.search():
            sessions.find(summary.id)
        sessions.save(session("chat9"))
        assert any(summary.id == "chat9" for summary in sessions.search("hello"))
        sessions.delete("chat9")
    finally:
        sessions.close()
    read_agent_ids(home / "agents.sqlite")


def use_cache(home: Path) -> None:
    tier = DiskTier.open(home / "cache", max_bytes=1 << 30, min_free_bytes=0, wake=lambda: None)
    if tier is not None:
        # Fails when a record does not match its checksum.
        read_all(tier)
        store(tier, 4)
        closed(tier)


def look_at_cache(home: Path) -> None:
    inspector = DiskInspector.open(home / "cache")
    try:
        inspector.verify()
        inspector.entries()
    finally:
        inspector.close()


def import_cache(home: Path) -> None:
    archive = home / "cache.archive"
    transfer.import_archive(
        home / "other", archive, max_bytes=1 << 30, min_free_bytes=0, on_progress=lambda done, total: None
    )


def edit_settings(home: Path) -> None:
    resolve(config_file=home / "mlxctl.toml", environment={})
    write_alias(home / "mlxctl.toml", "other", "org/other")
    remove_alias(home / "mlxctl.toml", "other")


def audit_files(home: Path) -> AuditFiles:
    return AuditFiles(home / "audit", retention_days=9, max_bytes=1 << 20)


def audit_record(number: int) -> AuditRecord:
    return AuditRecord(
        time=time.time(), request_id=f"r{number}", method="GET", route="/", status=200, duration_ms=1.0
    )


def use_audit(home: Path) -> None:
    files = audit_files(home)
    files.append([audit_record(9)])
    assert any(record.request_id == "r9" for record in files.search(AuditQuery()))
    files.prune()
    key = read_audit_key(home / "audit.key")
    assert len(key) >= 32
    assert read_audit_key(home / "audit.key") == key


def downloads(home: Path) -> DownloadJournal:
    return DownloadJournal(home / "downloads", home / "hub")


STORES: dict[str, Callable[[Path], None]] = {
    "agents.sqlite": use_agents,
    "responses.sqlite": use_responses,
    "capabilities.sqlite": use_capabilities,
    "speeds.sqlite": use_speeds,
    "chats.db": use_sessions,
}
READERS: list[Callable[[Path], object]] = [
    look_at_cache,
    import_cache,
    check_policy,
    lambda home: maintenance.collect(home / "cache", max_bytes=1 << 30),
    edit_settings,
    lambda home: read_overrides(home / "capabilities.toml"),
    lambda home: load_exported(home / "chat.json"),
    lambda home: downloads(home).others(),
    lambda home: Preferences(home / "screen.json").theme,
    lambda home: Preferences(home / "screen.json").sampling.beneath(ChatOptions()),
]


@given(name=st.sampled_from(FILES), damage=damages)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_damage_is_at_most_a_miss_or_a_named_error(intact: Path, name: str, damage: tuple) -> None:
    home = intact.parent / "damaged"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(intact, home)
    how, seed = damage
    how(path_of(home, name), random.Random(seed))

    for file, use in STORES.items():
        # The second attempt is like the next start.
        for _ in range(2):
            try:
                use(home)
            except StoreUnavailable as error:
                check_refusal(error, file, is_damaged=file == name)
            except Conflict:
                assert file == name == "agents.sqlite", "its messages are lost, with the agent"
    use_cache(home)
    use_cache(home)
    use_audit(home)
    use_audit(home)
    for read in READERS:
        with suppress(StoreError, SettingsError):
            read(home)


def path_of(home: Path, name: str) -> Path:
    """Return the path of one of FILES.

    The name of an audit segment begins with its day.
    """
    return next((home / "audit").iterdir()) if name == "audit/audit.jsonl" else home / name


def check_refusal(error: StoreUnavailable, file: str, *, is_damaged: bool) -> None:
    assert is_damaged, "only the store whose file it is may refuse"
    assert file in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", SQLITE_FILES)
def test_damaged_store_is_set_aside_and_replaced(
    intact: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    file = tmp_path / name
    noise = b"no database, but long enough to be taken for one" * 100
    for _ in range(MAX_KEPT + 2):
        file.write_bytes(noise)
        caplog.clear()
        STORES[name](tmp_path)
        assert len(caplog.messages) == 1
        assert all(
            part in caplog.messages[0]
            for part in (str(file), "not a database", set_aside_files(file)[-1].name)
        )
    assert [aside.read_bytes() for aside in set_aside_files(file)] == [noise] * MAX_KEPT


def test_damage_found_at_run_time_replaces_the_file(
    intact: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path(shutil.copy(intact / "agents.sqlite", tmp_path))
    agents = AgentStore(file, max_agents=9)
    assert agents.find("ann", "one") is not None
    data = bytearray(file.read_bytes())
    offset = data.index(MESSAGES[3])
    data[offset + 30] ^= 1
    file.write_bytes(data)
    agents.close()

    assert agents.find("ann", "two") is not None
    with pytest.raises(Conflict):
        use_agents(tmp_path)
    assert "set aside" in caplog.messages[0]
    agents.close()
    use_agents(tmp_path)
    assert len(set_aside_files(file)) == 1


def test_locked_or_newer_store_is_not_set_aside(
    intact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "_LOCK_SECONDS", 0.1)
    file = Path(shutil.copy(intact / "responses.sqlite", tmp_path))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="locked"):
        response_store(tmp_path).find("ann", "resp0")
    other.execute("PRAGMA user_version = 99")
    other.execute("COMMIT")
    other.close()
    with pytest.raises(StoreUnavailable, match="newer mlxctl"):
        response_store(tmp_path).find("ann", "resp0")
    assert set_aside_files(file) == []


def test_invalid_chat_is_an_error_of_that_chat(tmp_path: Path) -> None:
    sessions = SessionStore(tmp_path / "chats.db")
    damaged = session("deep")
    sessions.save(Session(summary=damaged.summary, text="", body=b"[" * 100_000))
    with pytest.raises(StoreError, match="cannot be read"):
        asyncio.run(SessionAutosave(sessions).load("deep"))
    sessions.close()


@pytest.mark.parametrize("content", ["a = " + "[" * 100_000, "a = " + "1" * 5000, "\x00", "a = \udcff"])
def test_invalid_settings_are_a_one_line_error(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mlxctl.toml"
    file.write_bytes(content.encode(errors="surrogateescape"))
    for use in (edit_settings, lambda home: write_alias(file, "a", "b"), lambda home: read_overrides(file)):
        with pytest.raises(SettingsError, match=r"mlxctl\.toml") as raised:
            use(tmp_path)
        assert "\n" not in str(raised.value)
