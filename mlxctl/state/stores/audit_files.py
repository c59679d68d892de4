"""Audit records in files of one JSON object per line.

One directory, several segments per day. Segments are named by UTC date and number and are readable by their
owner only. Any thread, one writer.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct

from mlxctl.state.stores.audit_index import MAX_GROUPS, AuditIndex, SegmentSummary

MAX_RESULTS = 1000
"""Number of records in one answer of a search."""
_SEGMENT_BYTES = 4 << 20
# A segment ends with the batch that fills it; a damaged one may have any size.
_MAX_READ_BYTES = 256 << 20
_SEGMENTS_OF_LIMIT = 8
# Ids are nanoseconds since 1970. A damaged one may be larger than SQLite and msgspec have it.
_MAX_ID = 1 << 62
_DAY_SECONDS = 86400.0
# The end of the year 9999, the last that `datetime` has.
_LAST_SECOND = 253_402_300_799.0


class AuditRecord(Struct, kw_only=True, omit_defaults=True):
    """One ended request in the audit log.

    `id` grows with time; `time` is its end in unix seconds. `caller` is the name of the key. Token counts are
    sums over all answers to the request, `characters` those of a text that is spoken. `prompt_sha256` and
    `response_sha256` are HMACs of prompt and answer with the key of this machine.
    """

    id: int = 0
    time: float
    request_id: str
    caller: str | None = None
    remote: str | None = None
    protocol: str | None = None
    method: str
    route: str
    model: str | None = None
    backend: str | None = None
    stream: bool = False
    status: int
    error: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    completion_tokens: int = 0
    thinking_tokens: int = 0
    images: int = 0
    characters: int = 0
    audio_seconds: float = 0.0
    queue_ms: float | None = None
    prefill_ms: float | None = None
    ttft_ms: float | None = None
    duration_ms: float
    guardrail: str | None = None
    trace_id: str | None = None
    agent: str | None = None
    adapter: str | None = None
    was_disconnected: bool = False
    prompt_sha256: list[str] = []
    response_sha256: list[str] = []
    prompt: list[str] = []
    response: list[str] = []


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which audit records to find.

    Those from `since` to `until` (unix seconds) that match all other fields. `after` is the id of the last
    record of the page before.
    """

    since: float | None = None
    until: float | None = None
    key: str | None = None
    model: str | None = None
    status: int | None = None
    limit: int = 100
    after: int | None = None

    def matches(self, record: AuditRecord) -> bool:
        """Whether a record is to be found."""
        return (
            (self.since is None or record.time >= self.since)
            and (self.until is None or record.time <= self.until)
            and self.key in (None, record.caller)
            and self.model in (None, record.model)
            and self.status in (None, record.status)
            and (self.after is None or record.id < self.after)
        )

    @property
    def is_selective(self) -> bool:
        """Whether it does not find all records."""
        wanted = (self.since, self.until, self.key, self.model, self.status, self.after)
        return any(value is not None for value in wanted)

    def may_match(self, summary: SegmentSummary) -> bool:
        """Whether a segment can have a record to be found."""
        if self.after is not None and summary.first_id >= self.after:
            return False
        if self.since is not None and summary.last_time < self.since:
            return False
        if self.until is not None and summary.first_time > self.until:
            return False
        return summary.groups is None or any(
            self.key in (None, caller) and self.model in (None, model) and self.status in (None, status)
            for caller, model, status in summary.groups
        )

    @property
    def parts(self) -> list[bytes]:
        """Parts that the line of a matching record has."""
        wanted = {"caller": self.key, "model": self.model, "status": self.status}
        return [
            msgspec.json.encode({name: value})[1:-1] for name, value in wanted.items() if value is not None
        ]


_SEGMENT_NAME = re.compile(r"audit-[0-9]{8}-[0-9]{6}\.jsonl")
_RECORDS = msgspec.json.Decoder(AuditRecord)


class AuditFiles:
    """The segments of one directory. Methods raise OSError."""

    def __init__(self, directory: Path, *, retention_days: float, max_bytes: int) -> None:
        self.directory = directory
        self._retention_seconds = retention_days * _DAY_SECONDS
        self._max_bytes = max_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, max(max_bytes // _SEGMENTS_OF_LIMIT, 1))
        self._index = AuditIndex(directory)
        self._last_id = 0
        # The last line may have been cut off, by a full disk or a crash.
        self._ends_with_newline = False

    def append(self, records: list[AuditRecord]) -> None:
        """Add records, each with the next id.

        Begins a new segment and prunes when the last one is full.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The clock may have been set back since the last start.
        self._last_id = self._last_id or self._newest_id()
        for record in records:
            record.id = self._last_id = max(self._last_id + 1, time.time_ns())
        data = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        if not self._ends_with_newline:
            data = b"\n" + data
        segment, is_new = self._segment_to_write()
        self._ends_with_newline = False
        descriptor = os.open(segment, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
        if written < len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written to {str(segment)!r}")
        self._ends_with_newline = True
        if is_new:
            self.prune()
            # The one that is full now.
            self._summaries(self._segments()[-2:-1])

    def _newest_id(self) -> int:
        """Return the last id of the newest segment; 0 without one."""
        newest = self._segments()[-1:]
        ids = (facts.id for segment in newest for facts in _facts(_read(segment)))
        return min(max(ids, default=0), _MAX_ID)

    def search(
        self, query: AuditQuery, is_visible: Callable[[AuditRecord], bool] = lambda _: True
    ) -> list[AuditRecord]:
        """Return matching records, the newest first, at most `query.limit`."""
        found: list[AuditRecord] = []
        limit = min(query.limit, MAX_RESULTS)
        for record in self._newest_first(query):
            if len(found) == limit:
                break
            if query.matches(record) and is_visible(record):
                found.append(record)
        return found

    def prune(self) -> int:
        """Delete segments past the retention time or beyond the limit.

        The oldest go first. Returns how many. The newest segment stays.
        """
        segments = self._segments()
        oldest_day = _day(time.time() - self._retention_seconds)
        num_bytes = sum(_size(segment) for segment in segments)
        num_deleted = 0
        for segment in segments[:-1]:
            if _day_of(segment) >= oldest_day and num_bytes <= self._max_bytes:
                break
            num_bytes -= _size(segment)
            segment.unlink(missing_ok=True)
            num_deleted += 1
        return num_deleted

    def _summaries(self, segments: Sequence[Path]) -> Mapping[str, SegmentSummary]:
        """Return the summaries of all full segments.

        Adds those of `segments` that are missing.
        """
        known = self._index.summaries()
        added = {
            segment.name: summary
            for segment in segments
            if (segment.name not in known or known[segment.name].num_bytes != _size(segment))
            and (summary := _summary(segment)) is not None
        }
        if added:
            self._index.add(added.values(), existing=[segment.name for segment in self._segments()])
        return {**known, **added}

    def _newest_first(self, query: AuditQuery) -> Iterator[AuditRecord]:
        parts = query.parts
        segments = self._segments()
        summaries = self._summaries(segments[:-1]) if query.is_selective else {}
        for segment in reversed(segments):
            if (summary := summaries.get(segment.name)) is not None and not query.may_match(summary):
                continue
            if query.until is not None and _day_of(segment) > _day(query.until):
                continue
            if query.since is not None and _day_of(segment) < _day(query.since):
                return
            try:
                content = _read(segment)
            except FileNotFoundError:  # pruned meanwhile
                continue
            # PERF: a rare key, model or status is in few segments, and there in few lines.
            if not all(part in content for part in parts):
                continue
            for line in reversed(content.splitlines()):
                if not all(part in line for part in parts):
                    continue
                # A line that a full disk cut off, or that is damaged, is skipped.
                with suppress(ValueError, RecursionError):
                    yield _RECORDS.decode(line)

    def _segments(self) -> list[Path]:
        found = self.directory.glob("audit-*.jsonl")
        return sorted(path for path in found if _SEGMENT_NAME.fullmatch(path.name) and path.is_file())

    def _segment_to_write(self) -> tuple[Path, bool]:
        """Return the segment for the next records, and whether it is new."""
        today = _day(time.time())
        segments = [segment for segment in self._segments() if _day_of(segment) == today]
        if segments and _size(segments[-1]) < self._segment_bytes:
            return segments[-1], False
        first = int(segments[-1].stem.rpartition("-")[2]) + 1 if segments else 0
        free = (self.directory / f"audit-{today}-{number:06}.jsonl" for number in count(first))
        return next(path for path in free if not os.path.lexists(path)), True


def _read(segment: Path) -> bytes:
    with segment.open("rb") as file:
        return file.read(_MAX_READ_BYTES)


class _Facts(Struct):
    """The parts of a record that its segment's summary has."""

    id: int
    time: float
    status: int
    caller: str | None = None
    model: str | None = None


_FACTS = msgspec.json.Decoder(_Facts)


def _facts(content: bytes) -> Iterator[_Facts]:
    for line in content.splitlines():
        # A line that a full disk cut off, or that is damaged, is skipped.
        with suppress(ValueError, RecursionError):
            yield _FACTS.decode(line)


def _summary(segment: Path) -> SegmentSummary | None:
    """Return the summary of a segment's records; None without any."""
    try:
        content = _read(segment)
    except FileNotFoundError:  # pruned meanwhile
        return None
    records = list(_facts(content))
    if not records:
        return None
    groups = frozenset((record.caller, record.model, record.status) for record in records)
    return SegmentSummary(
        name=segment.name,
        num_bytes=len(content),
        first_id=min(_MAX_ID, *(record.id for record in records)),
        first_time=min(record.time for record in records),
        last_time=max(record.time for record in records),
        groups=groups if len(groups) <= MAX_GROUPS else None,
    )


def _day(seconds: float) -> str:
    """Return the date of a unix time.

    Times before 1970 and after 9999 count as the first and the last day.
    """
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST_SECOND), UTC).strftime("%Y%m%d")


def _day_of(segment: Path) -> str:
    return segment.name.split("-")[1]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
