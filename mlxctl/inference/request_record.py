"""What happens to one request: model, generations, and end."""

from dataclasses import dataclass, field

from mlxctl.inference.request_entry import RequestEntry, StopCause
from mlxctl.ir.errors import KeyRevoked
from mlxctl.ir.timed_phases import Phase

MAX_ENTRIES = 256
"""Number of generations of one request whose figures are recorded."""
_MAX_NAME_CHARS = 128


@dataclass(slots=True, kw_only=True, eq=False)
class RequestRecord:
    """The outcome of one request so far.

    Event-loop thread only, until it has ended. `model` is the model that the request names, None until it is
    read. With `keeps_content` the prompts and answers of its `entries` are recorded. `error` is the code of
    the error that ended the request. `phases` are its timed parts, None where they are not recorded.
    """

    request_id: str
    protocol: str | None = None
    model: str | None = None
    stop_cause: StopCause = "stopped"
    keeps_content: bool = False
    is_revoked: bool = False
    guardrail: str | None = None
    error: str | None = None
    phases: list[Phase] | None = None
    entries: list[RequestEntry] = field(default_factory=list)

    def add(self, entry: RequestEntry) -> None:
        """Add a generation; it takes over the request's identity."""
        entry.request_id, entry.protocol, entry.stop_cause = self.request_id, self.protocol, self.stop_cause
        if self.phases is not None:
            entry.slices, entry.interruptions = [], []
        if len(self.entries) < MAX_ENTRIES:
            self.entries.append(entry)

    def name_model(self, name: str) -> None:
        """Record the model that the request names."""
        self.model = name[:_MAX_NAME_CHARS]

    def mark_stopped(self, cause: StopCause) -> None:
        """Record why the request is stopped, before its generations are cancelled."""
        self.stop_cause = cause
        for entry in self.entries:
            entry.stop_cause = cause

    def record_guardrail(self, verdict: str) -> None:
        """Record what a guardrail did; a refusal counts most."""
        if self.guardrail != "refused":
            self.guardrail = verdict

    def revoke(self) -> None:
        """End the request: the key of its caller is no longer valid."""
        self.is_revoked = True
        for entry in self.entries:
            entry.cancel(KeyRevoked())

    def check_key(self) -> None:
        """Raise KeyRevoked if the key was revoked meanwhile."""
        if self.is_revoked:
            raise KeyRevoked
