"""A queue of model downloads.

Methods may be called by any thread; one worker thread downloads, one model at a time, and another writes the
state of the downloads for other processes. Models are probed after their download by further threads, which
take turns.
"""

import threading
import time
from collections import deque
from dataclasses import replace
from math import inf
from pathlib import Path

from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import DownloadFailed, PolicyDenied, QueueFull
from mlxctl.library.download_journal import JOURNAL_SECONDS, Download, DownloadJournal, DownloadState
from mlxctl.library.hub import Cancelled, DownloadProgress, check_repository, download, plan_download
from mlxctl.library.library import DEMO_MODEL, DEMO_SHORT_NAME
from mlxctl.library.probe_process import ProbeProcess
from mlxctl.state import locations

MAX_WAITING = 16
# Finished downloads in the list.
_MAX_REMEMBERED = 64


class Downloads:
    """Downloads into one cache, of this and other processes.

    A repository in the queue is not queued twice. Callers have those of the models that they are `allowed`,
    by the name of the repository.
    """

    def __init__(self, cache: Path, *, probe: ProbeProcess | None = None) -> None:
        """Without `probe`, no model is probed."""
        self._cache = cache
        self._probe = probe
        self._probe_turn = threading.Lock()
        self._journal = DownloadJournal(locations.downloads_directory(), cache)
        self._lock = threading.Lock()
        self._downloads: dict[str, Download] = {}
        self._waiting: deque[str] = deque()
        self._progress = DownloadProgress()
        self._worker: threading.Thread | None = None
        self._is_closed = False

    def start(self, repository: str, allowed: AllowedModels, *, is_probed: bool = False) -> Download:
        """Queue the repository and return its state.

        With `is_probed` the model is probed after its download. Raises DownloadFailed for an invalid name,
        PolicyDenied, QueueFull.
        """
        if repository not in allowed:
            raise PolicyDenied(f"the key may not use the model {repository!r}")
        if repository in (DEMO_MODEL.name, DEMO_SHORT_NAME):
            raise DownloadFailed(
                repository,
                f"{repository!r} is built into mlxctl and needs no download: mlxctl run demo",
            )
        check_repository(repository)
        with self._lock:
            current = self._downloads.get(repository)
            probe: DownloadState | None = "waiting" if is_probed else None
            if current is not None and not current.is_over:
                current = self._downloads[repository] = replace(current, probe=current.probe or probe)
                return self._with_progress(current)
            if len(self._waiting) >= MAX_WAITING:
                raise QueueFull(
                    f"there are {MAX_WAITING} waiting downloads already", retry_after_seconds=60.0
                )
            self._downloads.pop(repository, None)
            self._downloads[repository] = Download(repository=repository, probe=probe)
            self._forget_old()
            self._waiting.append(repository)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="downloads", daemon=True)
                self._worker.start()
            return self._downloads[repository]

    def all(self, allowed: AllowedModels) -> list[Download]:
        """Return all recent downloads of this and other processes, oldest first.

        One that has ended is left out where the same repository is downloaded again. Reads files, so never
        call it on the event loop.
        """
        found = [each for each in (*self._journal.others(), *self._own()) if each.repository in allowed]
        found.sort(key=lambda download: download.started_at or download.ended_at or inf)
        last = {download.repository: download for download in found}
        return [each for each in found if not each.is_over or last[each.repository] is each]

    def find(self, repository: str, allowed: AllowedModels) -> Download | None:
        """Return a download of this process, or None."""
        with self._lock:
            found = self._downloads.get(repository) if repository in allowed else None
            return self._with_progress(found) if found else None

    def cancel(self, repository: str, allowed: AllowedModels) -> Download | None:
        """Cancel a download of this process, or its probe.

        Returns its state, None if both have ended or there is none. Complete files are kept.
        """
        with self._lock:
            found = self._downloads.get(repository)
            if found is None or repository not in allowed:
                return None
            if found.is_over and found.probe not in ("waiting", "running"):
                return None
            if found.state == "running":
                self._progress.cancel()
            elif found.state == "waiting":
                self._waiting.remove(repository)
                found = replace(found, state="cancelled", ended_at=time.time())
            elif found.probe == "running" and self._probe is not None:
                self._probe.stop()
            if found.state != "running":
                found = self._downloads[repository] = found.without_probe()
            return self._with_progress(found)

    def forget(self, repository: str, allowed: AllowedModels) -> None:
        """Take downloads that have ended off the list.

        Also those of other processes. Reads and writes files, so never call it on the event loop.
        """
        if repository not in allowed:
            return
        with self._lock:
            found = self._downloads.get(repository)
            is_own = found is not None and found.is_over
            if is_own:
                del self._downloads[repository]
        if is_own:
            self._journal.write(self._own())
        self._journal.forget(repository)

    def close(self) -> None:
        """Cancel running and waiting downloads, without waiting.

        Complete files are kept.
        """
        with self._lock:
            self._is_closed = True
            self._progress.cancel()
            for repository in self._waiting:
                self._downloads[repository] = replace(self._downloads[repository], state="cancelled")
            self._waiting.clear()
        if self._probe is not None:
            self._probe.close()
        if self._downloads:
            self._journal.write(self._own())

    def wait(self, *, seconds: float) -> bool:
        """Wait up to `seconds` for the running download; return whether it ended."""
        with self._lock:
            worker = self._worker
        if worker is not None:
            worker.join(seconds)
        return worker is None or not worker.is_alive()

    def _own(self) -> list[Download]:
        with self._lock:
            found = [self._with_progress(download) for download in self._downloads.values()]
        if not self._is_closed:
            return found
        # A thread that waits for a silent network is not awaited at exit.
        now = time.time()
        return [
            (
                download if download.is_over else replace(download, state="cancelled", ended_at=now)
            ).without_probe()
            for download in found
        ]

    def _work(self) -> None:
        is_idle = threading.Event()
        writer = threading.Thread(
            target=self._write_journal, args=(is_idle,), name="download-journal", daemon=True
        )
        writer.start()
        while (repository := self._next()) is not None:
            self._download(repository)
        is_idle.set()
        writer.join()

    def _write_journal(self, is_idle: threading.Event) -> None:
        while not is_idle.wait(JOURNAL_SECONDS):
            self._journal.write(self._own())

    def _download(self, repository: str) -> None:
        self._journal.write(self._own())
        try:
            plan = plan_download(repository, cache=self._cache)
            self._change(repository, num_bytes_total=plan.num_bytes_left, num_files_total=plan.num_files)
            path = download(plan, cache=self._cache, progress=self._progress)
            self._end(
                repository, state="done", num_bytes=plan.num_bytes_left, num_files=plan.num_files, path=path
            )
            self._start_probe(repository, path)
        except DownloadFailed as error:
            self._stop(repository, state="failed", error=str(error))
        except Cancelled:
            self._stop(repository, state="cancelled")
        self._journal.write(self._own())

    def _start_probe(self, repository: str, path: Path) -> None:
        """Probe a downloaded model where that was requested."""
        found = self.find(repository, EVERY_MODEL)
        if self._probe is not None and found is not None and found.probe == "waiting":
            threading.Thread(
                target=self._probe_model, args=(self._probe, repository, path), name="probe", daemon=True
            ).start()

    def _probe_model(self, probe: ProbeProcess, repository: str, path: Path) -> None:
        with self._probe_turn:
            if not self._change_probe(repository, "waiting", "running"):
                return
            problem = probe.run(path)
            self._change_probe(repository, "running", "failed" if problem else "done", error=problem)
        self._journal.write(self._own())

    def _change_probe(
        self, repository: str, before: DownloadState, after: DownloadState, *, error: str | None = None
    ) -> bool:
        """Change a probe's state from `before`; return False in another state."""
        with self._lock:
            found = self._downloads.get(repository)
            if found is None or found.probe != before:
                return False
            self._downloads[repository] = replace(found, probe=after, probe_error=error)
            return True

    def _next(self) -> str | None:
        with self._lock:
            if self._is_closed or not self._waiting:
                self._worker = None
                return None
            repository = self._waiting.popleft()
            self._progress = DownloadProgress()
            self._downloads[repository] = replace(
                self._downloads[repository], state="running", started_at=time.time()
            )
            return repository

    def _stop(self, repository: str, **changes: object) -> None:
        """End a download before it is complete, with what it has."""
        done = self._progress
        self._end(repository, num_bytes=done.num_bytes, num_files=done.num_files, **changes)

    def _end(self, repository: str, **changes: object) -> None:
        with self._lock:
            ended = replace(self._downloads[repository], ended_at=time.time(), **changes)  # type: ignore[arg-type]
            self._downloads[repository] = ended if ended.state == "done" else ended.without_probe()

    def _change(self, repository: str, **changes: object) -> None:
        with self._lock:
            self._downloads[repository] = replace(self._downloads[repository], **changes)  # type: ignore[arg-type]

    def _with_progress(self, download: Download) -> Download:
        if download.state != "running":
            return download
        progress = self._progress
        return replace(
            download,
            num_bytes=progress.num_bytes,
            num_files=progress.num_files,
            current_file=progress.current_file,
            bytes_per_second=progress.bytes_per_second(),
        )

    def _forget_old(self) -> None:
        over = [download.repository for download in self._downloads.values() if download.is_over]
        for repository in over[: max(0, len(self._downloads) - _MAX_REMEMBERED)]:
            del self._downloads[repository]
