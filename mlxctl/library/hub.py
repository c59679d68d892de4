"""Downloads a model into the hub cache with `huggingface_hub`.

Only files that a model needs are downloaded. Complete files are kept, so an interrupted download continues
with the next file. The library is imported at the first download: its import is slow.
"""

import errno
import json
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.ir.errors import DownloadFailed, describe_bytes
from mlxctl.library.files import OTHER_FORMAT
from mlxctl.library.names import folder_of_repository, is_repository
from mlxctl.library.unknown_names import describe_no_repository, near_hint

MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.mvn", "*.tiktoken", "*.npz")
# Copies of the weights in formats that MLX does not load.
_NEVER = ("consolidated*.safetensors", "original/*", "onnx/*", "openvino/*", "coreml/*", "gguf/*")
# Disk space to leave free for the rest of the machine.
_SPARE_BYTES = 256 * 1024**2
_NUM_WORKERS = 4
# The library checks for cancellation only between parts, of 10 MiB by default.
_PIECE_BYTES = 1024**2
# A killed process leaves partial files, under names that are never used again.
_STALE_SECONDS = 86_400
# The rate of a download is that of its last seconds; samples for it are taken at this interval.
_RATE_SECONDS, _SAMPLE_SECONDS = 5.0, 0.25
_MAX_SAMPLES = 64


# What the library raises for an answer in another shape than a hub's, such as the page of a proxy.
_NO_HUB = (AttributeError, IndexError, KeyError, TypeError, json.JSONDecodeError)
_WRONG_SIZE = "Consistency check failed"


class Cancelled(Exception):
    """The download was cancelled by the operator or at exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """The files to download.

    `num_bytes` counts all files of the model, `num_bytes_left` those that are missing. `missing` has the name
    of each missing file and the path where it is when complete, in order of their names.
    """

    repository: str
    num_files: int
    num_bytes: int
    num_bytes_left: int
    missing: tuple[tuple[str, Path], ...] = ()


class DownloadProgress:
    """Progress of a download; written by its threads, read by any.

    `cancel` ends it before the next part of a file.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done_by_bar: dict[int, int] = {}
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        self._num_files = 0
        self._missing: deque[tuple[str, Path]] = deque()
        self._is_cancelled = threading.Event()

    @property
    def num_bytes(self) -> int:
        """Bytes downloaded so far.

        One progress bar counts received bytes, another written ones; the larger number counts.
        """
        with self._lock:
            return max(self._done_by_bar.values(), default=0)

    @property
    def num_files(self) -> int:
        """Files that are complete."""
        with self._lock:
            return self._num_files

    @property
    def current_file(self) -> str | None:
        """The first missing file by name; several are downloaded at once."""
        with self._lock:
            return self._missing[0][0] if self._missing else None

    def begin(self, plan: DownloadPlan) -> None:
        """Set the files that are missing."""
        with self._lock:
            self._missing = deque(plan.missing)

    def bytes_per_second(self) -> float:
        """Return the rate over the last five seconds."""
        now = time.monotonic()
        with self._lock:
            recent = [sample for sample in self._samples if now - sample[0] <= _RATE_SECONDS]
            done = max(self._done_by_bar.values(), default=0)
        if not recent:
            return 0.0
        since, before = recent[0]
        return (done - before) / max(now - since, _SAMPLE_SECONDS)

    def end_file(self) -> None:
        """Count a complete file."""
        with self._lock:
            self._num_files += 1
            while self._missing and self._missing[0][1].exists():
                self._missing.popleft()

    def add(self, bar: int, num_bytes: int) -> None:
        """Count bytes of one bar. Raises Cancelled after `cancel`."""
        now = time.monotonic()
        with self._lock:
            if not self._samples or now - self._samples[-1][0] >= _SAMPLE_SECONDS:
                self._samples.append((now, max(self._done_by_bar.values(), default=0)))
            self._done_by_bar[bar] = self._done_by_bar.get(bar, 0) + num_bytes
        if self._is_cancelled.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """End the download soon."""
        self._is_cancelled.set()


def check_repository(repository: str) -> None:
    """Raise DownloadFailed for a name that no hub repository can have."""
    if not is_repository(repository):
        raise DownloadFailed(repository, describe_no_repository(repository))


def plan_download(repository: str, *, cache: Path) -> DownloadPlan:
    """List the files on the hub and check the free disk space.

    Raises DownloadFailed.
    """
    check_repository(repository)
    from huggingface_hub import snapshot_download

    _set_up_library()
    with _plain_failures(repository):
        files = snapshot_download(
            repository,
            cache_dir=cache,
            allow_patterns=list(MODEL_FILES),
            ignore_patterns=list(_NEVER),
            dry_run=True,
            tqdm_class=_counting_progress_class(DownloadProgress()),
        )
    plan = DownloadPlan(
        repository=repository,
        num_files=len(files),
        num_bytes=sum(file.file_size or 0 for file in files),
        num_bytes_left=sum(file.file_size or 0 for file in files if file.will_download),
        missing=tuple(sorted((file.filename, Path(file.local_path)) for file in files if file.will_download)),
    )
    if not any(file.filename.endswith((".safetensors", ".npz")) for file in files):
        raise DownloadFailed(
            repository,
            f"repository {repository!r} has no weights that MLX can load (*.safetensors); {OTHER_FORMAT}",
        )
    _check_room(plan, cache)
    return plan


def download(plan: DownloadPlan, *, cache: Path, progress: DownloadProgress) -> Path:
    """Download the missing files and return the model's directory.

    Raises DownloadFailed and, after `cancel`, Cancelled.
    """
    from huggingface_hub import snapshot_download

    _set_up_library()
    progress.begin(plan)
    _sweep(cache / folder_of_repository(plan.repository) / "blobs")
    with _plain_failures(plan.repository):
        directory = snapshot_download(
            plan.repository,
            cache_dir=cache,
            allow_patterns=list(MODEL_FILES),
            ignore_patterns=list(_NEVER),
            max_workers=_NUM_WORKERS,
            tqdm_class=_counting_progress_class(progress),
        )
    return Path(directory)


def _set_up_library() -> None:
    """Silence the library's output and shorten its parts and timeouts."""
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    constants.DOWNLOAD_CHUNK_SIZE = _PIECE_BYTES


def _sweep(blobs: Path) -> None:
    for file in blobs.glob("*.incomplete"):
        if time.time() - file.stat().st_mtime > _STALE_SECONDS:
            file.unlink(missing_ok=True)


def _check_room(plan: DownloadPlan, cache: Path) -> None:
    existing = next(path for path in (cache, *cache.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(existing).free
    if plan.num_bytes_left + _SPARE_BYTES > free:
        needed, room = describe_bytes(plan.num_bytes_left), describe_bytes(free)
        message = (
            f"model {plan.repository!r} needs {needed} more on the disk of {str(cache)!r}, which has {room} "
            f"left, and {describe_bytes(_SPARE_BYTES)} must stay free; free space, or name another directory "
            "in HF_HUB_CACHE"
        )
        raise DownloadFailed(plan.repository, message)


def _counting_progress_class(progress: DownloadProgress) -> Any:
    """Return a progress-bar class that draws nothing and counts bytes."""
    from tqdm.std import tqdm  # type: ignore[import-untyped]

    class CountingBar(tqdm):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._counts_bytes = options.get("unit") == "B"
            super().__init__(*arguments, **{**options, "disable": True})

        def update(self, amount: float | None = 1) -> None:
            if self._counts_bytes:
                progress.add(id(self), int(amount or 0))
            elif amount:
                progress.end_file()

    return CountingBar


@contextmanager
def _plain_failures(repository: str) -> Iterator[None]:
    """Turn the library's exceptions into a DownloadFailed of one line.

    The root cause counts.
    """
    import httpx2
    from huggingface_hub.errors import DryRunError, EntryNotFoundError, RevisionNotFoundError

    try:
        yield
    except (
        OSError,
        httpx2.HTTPError,
        DryRunError,
        EntryNotFoundError,
        RevisionNotFoundError,
        ValueError,
        *_NO_HUB,
    ) as error:
        raise DownloadFailed(repository, _explain(repository, _first_cause(error))) from error


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None and type(error).__name__ in (
        "DryRunError",
        "LocalEntryNotFoundError",
        "IncompleteSnapshotError",
    ):
        error = error.__cause__
    return error


def _explain(repository: str, error: BaseException) -> str:
    import httpx2
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        FileMetadataError,
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    match error:
        case GatedRepoError():
            return (
                f"repository {repository!r} is gated: accept its terms on its page of the hub, then set "
                "HF_TOKEN"
            )
        case RepositoryNotFoundError():
            hint = near_hint(repository)
            return (
                f"the hub has no repository {repository!r}, or it is private and HF_TOKEN gives no access"
                + (f"; {hint}" if hint else "")
            )
        case OfflineModeIsEnabled():
            return f"cannot download {repository!r}: HF_HUB_OFFLINE forbids it"
        case HfHubHTTPError():
            return f"the hub refuses {repository!r} with status {error.response.status_code}"
        case _ if isinstance(error, (FileMetadataError, *_NO_HUB)):
            return (
                f"cannot download {repository!r}: {constants.ENDPOINT} does not answer as a hub does; "
                "maybe a proxy or a login page answered: check the network, HTTPS_PROXY and HF_ENDPOINT"
            )
        case OSError() if _WRONG_SIZE in str(error):
            return (
                f"cannot download {repository!r}: a file that arrived has another size than the hub's; the "
                "same command tries again"
            )
        case httpx2.HTTPError():
            return (
                f"cannot download {repository!r}: the hub at {constants.ENDPOINT} cannot be reached "
                f"({_one_line(error)}); check the network and HTTPS_PROXY, or name another hub in HF_ENDPOINT"
            )
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return (
                f"cannot download {repository!r}: the disk is full; free space, or name another directory in "
                "HF_HUB_CACHE, and the same command continues"
            )
        case OSError() if error.errno == errno.EFBIG:
            return (
                f"cannot download {repository!r}: a file is too large for the disk's file system or `ulimit "
                "-f`; name a directory on another disk in HF_HUB_CACHE"
            )
        case _:
            return f"cannot download {repository!r}: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "…"
