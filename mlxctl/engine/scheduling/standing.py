"""Standing of a sequence among the others. Pure; MLX thread."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Standing:
    """Service, wait and place of a sequence, by which it is ordered.

    It was served last at `served_at`; memory alone keeps it waiting since `memory_short_since`.
    `num_overtaking_tokens` of other prompts may be computed before its next pass. `admitted_priority` is its
    priority value after aging when it got its place. With `has_place` another one was preempted for it. With
    `resumes_first` it continues before new sequences of its caller and priority. While `is_paused` it gets no
    place. With `waits_for_end` it gave its memory to others: it continues once one of them has ended.
    """

    served_at: float
    memory_short_since: float | None = None
    num_overtaking_tokens: int = 0
    admitted_priority: int = 0
    has_place: bool = False
    resumes_first: bool = False
    is_paused: bool = False
    waits_for_end: bool = False

    def serve(self, *, now: float) -> None:
        """Note that the sequence was served: its wait starts anew."""
        self.served_at = now

    def pause(self) -> None:
        """Give up the place until `unpause`."""
        self.is_paused, self.has_place = True, False

    def unpause(self, *, now: float) -> None:
        """Continue.

        The pause is no wait that counts for aging or the target time to first token.
        """
        self.is_paused, self.served_at = False, now

    def reserve_place(self) -> None:
        """Reserve the place of a sequence that was preempted for this one."""
        self.has_place = True

    def take_place(self) -> None:
        """Note the admission, which uses a reserved place."""
        self.has_place = False

    def note_admission(self, aged_priority: int) -> None:
        """Note the priority value with which the place was won."""
        self.admitted_priority = aged_priority

    def note_preemption(self, *, resumes_first: bool, now: float) -> None:
        """Note that the place was lost; the wait starts anew."""
        self.resumes_first, self.served_at = resumes_first, now

    def give_memory(self) -> None:
        """Wait until another sequence ends, which keeps both from taking turns."""
        self.waits_for_end = True

    def note_end(self) -> None:
        """Note that another sequence has ended."""
        self.waits_for_end = False

    def note_memory(self, *, is_short: bool, now: float) -> None:
        """Note whether memory alone keeps the sequence waiting."""
        if not is_short:
            self.memory_short_since = None
        elif self.memory_short_since is None:
            self.memory_short_since = now

    def let_overtake(self, num_tokens: int) -> None:
        """Let others compute `num_tokens` before the next pass."""
        self.num_overtaking_tokens = num_tokens

    def note_overtaking(self, num_tokens: int) -> None:
        """Count tokens that another sequence computed before this one."""
        self.num_overtaking_tokens -= num_tokens
