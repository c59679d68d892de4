"""Selects the texts that are embedded next: jobs take turns. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mlxctl.ir.tokens import Tokens

# With more very short texts, handling the rows takes longer than computing them.
_MAX_ROWS = 64


@dataclass(slots=True, kw_only=True, eq=False)
class EmbeddingJob:
    """The texts of one request.

    `order` holds the indices of open texts, the shortest last; `num_read` tokens of that one are computed. A
    text may span several slices if `can_be_split`. An `unfinished` slice has the next turn.
    """

    job_id: int
    request_id: str = ""
    model: str
    texts: Sequence[Tokens]
    dimensions: int | None = None
    can_be_split: bool = True
    order: list[int] = field(init=False)
    num_read: int = 0
    unfinished: "EmbeddingSlice | None" = None

    def __post_init__(self) -> None:
        # Texts of similar length share a slice, which keeps padding small.
        self.order = sorted(range(len(self.texts)), key=lambda place: len(self.texts[place]), reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSlice:
    """One turn of a job: whole texts, or part of one.

    A part is `num_tokens` from `start` on.
    """

    job: EmbeddingJob
    places: tuple[int, ...]
    start: int
    num_tokens: int

    @property
    def is_last_of_text(self) -> bool:
        """Whether it completes its texts."""
        return self.start + self.num_tokens >= len(self.job.texts[self.places[-1]])

    @property
    def whole_texts(self) -> list[Tokens]:
        """The texts of `places`."""
        return [self.job.texts[place] for place in self.places]

    @property
    def num_padded_tokens(self) -> int:
        """Computed tokens, padding included."""
        return len(self.places) * self.num_tokens


class EmbeddingQueue:
    """The open jobs in the order of their turns."""

    def __init__(self) -> None:
        self._jobs: deque[EmbeddingJob] = deque()

    @property
    def has_work(self) -> bool:
        """Whether a job is open."""
        return bool(self._jobs)

    @property
    def next_model(self) -> str:
        """The model of the next turn. Needs `has_work`."""
        return self._jobs[0].model

    def add(self, job: EmbeddingJob) -> None:
        """Add a job with at least one text, none of them empty."""
        self._jobs.append(job)

    def drop(self, job_ids: Iterable[int]) -> list[EmbeddingJob]:
        """Remove these jobs; return those that were there."""
        gone = set(job_ids)
        dropped = [job for job in self._jobs if job.job_id in gone]
        self._jobs = deque(job for job in self._jobs if job.job_id not in gone)
        return dropped

    def has_work_for(self, model: str) -> bool:
        """Return whether a job of the model is open."""
        return any(job.model == model for job in self._jobs)

    def take(self, *, max_tokens: int) -> EmbeddingSlice:
        """Take the next slice.

        Its job goes to the end of the queue, or is removed with its last text. Needs `has_work`. A slice has
        at most `max_tokens`, padding included, unless it is one text that may not be cut.
        """
        job = self._jobs.popleft()
        taken = job.unfinished or self._longer_part(job, max_tokens) or self._whole_texts(job, max_tokens)
        job.unfinished = None
        if job.order:
            self._jobs.append(job)
        return taken

    def put_back(self, part: EmbeddingSlice) -> None:
        """Give an unfinished slice the next turn.

        It holds memory until it is done.
        """
        if part.job in self._jobs:
            self._jobs.remove(part.job)
        part.job.unfinished = part
        self._jobs.appendleft(part.job)

    def _longer_part(self, job: EmbeddingJob, max_tokens: int) -> EmbeddingSlice | None:
        place, start = job.order[-1], job.num_read
        num_left = len(job.texts[place]) - start
        if not job.can_be_split or (not start and num_left <= max_tokens):
            return None
        num_tokens = min(num_left, max_tokens)
        job.num_read += num_tokens
        if num_tokens == num_left:
            job.num_read = 0
            job.order.pop()
        return EmbeddingSlice(job=job, places=(place,), start=start, num_tokens=num_tokens)

    def _whole_texts(self, job: EmbeddingJob, max_tokens: int) -> EmbeddingSlice:
        places: list[int] = []
        while job.order and len(places) < _MAX_ROWS:
            length = len(job.texts[job.order[-1]])
            if places and length * (len(places) + 1) > max_tokens:
                break
            places.append(job.order.pop())
        width = len(job.texts[places[-1]])
        return EmbeddingSlice(job=job, places=tuple(places), start=0, num_tokens=width)
