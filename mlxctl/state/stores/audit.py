"""The audit log: callers, times and keyed hashes of requests."""

import hashlib
import hmac
import logging
import os
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlxctl.ir.errors import StoreUnavailable
from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord
from mlxctl.state.stores.damage import set_aside

MAX_WAITING = 4096
"""Number of records that wait to be written; further ones are dropped."""
MAX_TEXT_BYTES = 1 << 20
"""Bytes of a prompt or an answer that a record holds with `debug`."""
_MAX_BATCH = 256
_CLOSE_SECONDS = 2.0
_KEY_BYTES = 32
_MAX_KEY_FILE_BYTES = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditContent:
    """Prompt and answer of one generation, read by the writing thread."""

    prompt: Callable[[], bytes]
    answer: Callable[[], bytes]


class AuditStore:
    """Writes records in a separate thread.

    `add` never waits and never fails. `debug` adds prompts and answers as text. Records that cannot be
    written, or come faster than they are written, are dropped and counted; the first of a series is logged.
    """

    def __init__(self, files: AuditFiles, *, key: bytes, debug: bool = False) -> None:
        self.files = files
        self.num_dropped = 0
        self._key = key
        self._debug = debug
        self._is_failing = False
        self._waiting: queue.Queue[tuple[AuditRecord, Sequence[AuditContent]] | None] = queue.Queue(
            MAX_WAITING
        )
        self._thread = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._thread.start()

    def add(self, record: AuditRecord, contents: Sequence[AuditContent] = ()) -> None:
        """Queue a record, or count it as dropped."""
        try:
            self._waiting.put_nowait((record, contents))
        except queue.Full:
            self._drop(1, "records come faster than they can be written")

    def search(self, query: AuditQuery, is_visible: Callable[[AuditRecord], bool]) -> list[AuditRecord]:
        """Return matching records that are visible, the newest first. Blocks. Raises StoreUnavailable."""
        try:
            return self.files.search(query, is_visible)
        except OSError as error:
            raise StoreUnavailable("audit records", f"the audit log cannot be read: {error}") from None

    def close(self) -> None:
        """Write the queued records, within a short time limit. Idempotent."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
            self._thread.join(_CLOSE_SECONDS)

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            batch = [self._waiting.get()]
            while len(batch) < _MAX_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            is_open = None not in batch
            self._write([self._complete(*item) for item in batch if item is not None])

    def _write(self, records: list[AuditRecord]) -> None:
        if not records:
            return
        try:
            self.files.append(records)
        except OSError as error:
            self._drop(len(records), str(error))
        else:
            self._is_failing = False

    def _complete(self, record: AuditRecord, contents: Sequence[AuditContent]) -> AuditRecord:
        """Add the hashes of the contents, and the contents with `debug`."""
        for content in contents:
            prompt, answer = content.prompt(), content.answer()
            record.prompt_sha256.append(self._digest(prompt))
            record.response_sha256.append(self._digest(answer))
            if self._debug:
                record.prompt.append(prompt[:MAX_TEXT_BYTES].decode(errors="replace"))
                record.response.append(answer[:MAX_TEXT_BYTES].decode(errors="replace"))
        return record

    def _digest(self, content: bytes) -> str:
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def _drop(self, number: int, reason: str) -> None:
        self.num_dropped += number
        if not self._is_failing:
            self._is_failing = True
            _log.error("audit records are lost: %s", reason)


def read_audit_key(path: Path) -> bytes:
    """Return the HMAC key in a file, created owner-only at first.

    A damaged file is set aside, and a new key created. Raises OSError.
    """
    try:
        return _read_key(path)
    except (ValueError, IsADirectoryError, FileNotFoundError) as error:
        kept = set_aside(path)
        _log.error(
            "the key of the audit log, %s, is damaged (%s): set aside as %s; hashes from now on differ from "
            "earlier ones",
            path,
            error,
            kept.name,
        )
        return _read_key(path)


def _read_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES))
    if not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as file:
        key = bytes.fromhex(file.read(_MAX_KEY_FILE_BYTES).decode().strip())
    if len(key) < _KEY_BYTES:
        raise ValueError(f"it has fewer than {_KEY_BYTES} bytes")
    return key
