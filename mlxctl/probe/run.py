"""Probing of models, each in a separate engine. Event-loop thread only."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from mlxctl.engine import EngineClient, EngineProcess
from mlxctl.engine.client.launcher import Launcher
from mlxctl.ir import ModelFacts, Purpose
from mlxctl.ir.errors import MlxctlError, StoreError
from mlxctl.library import NamedDirectory
from mlxctl.probe.interview import Interview
from mlxctl.probe.interview_steps import (
    EMBEDDING_STEPS,
    QUESTIONS_VERSION,
    RERANKING_STEPS,
    SPEECH_STEPS,
    TRANSCRIPTION_STEPS,
    ProbeStep,
    StepRunner,
)
from mlxctl.probe.media_checks import check_modalities, unsupported_findings
from mlxctl.probe.observer import ProbeObserver
from mlxctl.probe.probed_model import ProbeSubject, read_subject, versions
from mlxctl.probe.targets import ProbeTarget
from mlxctl.state.settings import EngineSettings
from mlxctl.state.stores import CapabilityStore, Finding, ProbeRecord

_MAX_QUEUE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """Result of probing one model: its record, or a one-line `problem`.

    `name` is the name that was given, `directory` the model's. With `was_known` the record is an earlier one.
    `phases` are the seconds of each part of probing, in order.
    """

    name: str
    directory: NamedDirectory | None = None
    record: ProbeRecord | None = None
    was_known: bool = False
    problem: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


class PhaseTimer:
    """Seconds by phase, in the order in which the phases ended."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def times(self, phase: str) -> Iterator[None]:
        """Measure the duration of the block, however it ends."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = round(time.perf_counter() - started, 4)


class ProbeRun:
    """A run over any number of models.

    `outcomes` grow, so that a cancelled run keeps them. A model that was probed completely with this version
    of the questions is skipped, unless `is_forced`. Findings of an incomplete or failed run are kept, and
    only the missing steps run, if no package version has changed.
    """

    def __init__(
        self,
        store: CapabilityStore,
        settings: EngineSettings,
        *,
        observer: ProbeObserver,
        is_forced: bool = False,
        trust_remote_code: bool = False,
        deadline_seconds: float = 600.0,
        find_listener: Callable[[], ModelFacts | None] = lambda: None,
        launcher: Callable[[EngineSettings], Launcher] = EngineProcess,
    ) -> None:
        """`deadline_seconds` is the longest time for one answer.

        `find_listener` returns a transcription model that hears what speech models say.
        """
        self._find_listener = find_listener
        self.outcomes: list[ProbeOutcome] = []
        self._store = store
        self._settings = settings
        self._observer = observer
        self._is_forced = is_forced
        self._trust_remote_code = trust_remote_code
        self._deadline_seconds = deadline_seconds
        self._launcher = launcher

    async def probe(self, targets: Sequence[ProbeTarget]) -> None:
        """Probe all targets one after the other.

        A model that cannot be probed does not stop the others. Raises StoreError.
        """
        await asyncio.to_thread(self._store.has_records)
        for target in targets:
            try:
                await self._probe(target)
            except StoreError:
                raise
            except MlxctlError as error:
                self.outcomes.append(ProbeOutcome(name=target.name, problem=" ".join(str(error).split())))

    async def _probe(self, target: ProbeTarget) -> None:
        if target.directory is None:
            self.outcomes.append(ProbeOutcome(name=target.name, problem=target.problem))
            return
        watch = PhaseTimer()
        with watch.times("files"):
            subject = await asyncio.to_thread(
                read_subject, target.directory, trust_remote_code=self._trust_remote_code
            )
        before = None if self._is_forced else await asyncio.to_thread(self._store.find, subject.fingerprint)
        if before is not None and before.is_complete and before.round == QUESTIONS_VERSION:
            self.outcomes.append(
                ProbeOutcome(name=target.name, directory=target.directory, record=before, was_known=True)
            )
        elif subject.facts is None:
            self._keep(
                target, _record(subject, unsupported_findings(subject.detection), started=time.time()), watch
            )
        else:
            await self._ask(target, subject, subject.facts, _still_true(before), watch)

    async def _ask(
        self,
        target: ProbeTarget,
        subject: ProbeSubject,
        facts: ModelFacts,
        known: Sequence[Finding],
        watch: PhaseTimer,
    ) -> None:
        started = time.time()
        runner = _step_runner(subject, known)
        steps = runner.missing_steps()
        self._observer.model_started(target.name, len(steps) + 1)
        self._observer.step_started("loading")
        try:
            async with self._engine(subject, facts, watch) as client:
                interview = Interview(
                    client,
                    subject.name,
                    facts,
                    deadline_seconds=self._deadline_seconds,
                    observer=self._observer,
                    listener=await asyncio.to_thread(self._find_listener) if facts.speech else None,
                )
                interview.adapter().check_width(interview.loaded.vocabulary_size)
                for step in steps:
                    self._observer.step_started(step.title)
                    with watch.times(step.title):
                        found = await runner.run(step, interview)
                    for finding in found:
                        self._observer.found(finding)
        finally:
            if runner.has_results:
                self._keep(target, _record(subject, runner.findings, started=started), watch)
            self._observer.ended()

    @asynccontextmanager
    async def _engine(
        self, subject: ProbeSubject, facts: ModelFacts, watch: PhaseTimer
    ) -> AsyncIterator[EngineClient]:
        client = EngineClient(self._launcher(self._settings), self._settings, max_queue=_MAX_QUEUE)
        spec = facts.spec(subject.name, trust_remote_code=subject.trust_remote_code)
        try:
            with watch.times("loading"):
                await client.start([spec])
                await client.wait_ready()
            yield client
        finally:
            with watch.times("ending"):
                await client.stop(drain_seconds=0.0)

    def _keep(self, target: ProbeTarget, record: ProbeRecord, watch: PhaseTimer) -> None:
        """Write the record into the store.

        A small write, on the event loop, that a cancelled run must not lose.
        """
        kept = self._store.save(record)
        self.outcomes.append(
            ProbeOutcome(name=target.name, directory=target.directory, record=kept, phases=watch.seconds)
        )


_STEPS: Mapping[Purpose, Sequence[ProbeStep]] = {
    "embeddings": EMBEDDING_STEPS,
    "transcription": TRANSCRIPTION_STEPS,
    "speech": SPEECH_STEPS,
}


def _step_runner(subject: ProbeSubject, known: Sequence[Finding]) -> StepRunner:
    """Return the steps for the model's purpose, with untested findings."""
    facts = subject.facts
    if facts is None or facts.purpose == "text":
        tested = {
            *(("vision", "multi_image", "video") if facts is not None and facts.vision is not None else ()),
            *(("audio",) if facts is not None and facts.audio is not None else ()),
        }
        known_findings = [
            finding for finding in check_modalities(subject.detection) if finding.question not in tested
        ]
        return StepRunner([*known_findings, *known])
    steps = _STEPS.get(facts.purpose, ())
    if facts.embedding is not None and facts.embedding.scores_pairs:
        steps = RERANKING_STEPS
    tested = {question for step in steps for question in step.questions}
    known_findings = [
        finding for finding in unsupported_findings(subject.detection) if finding.question not in tested
    ]
    return StepRunner([*known_findings, *known], steps)


def _still_true(before: ProbeRecord | None) -> tuple[Finding, ...]:
    if before is None or before.round != QUESTIONS_VERSION or before.versions != versions():
        return ()
    return tuple(finding for finding in before.findings if not finding.has_failed)


def _record(subject: ProbeSubject, findings: Sequence[Finding], *, started: float) -> ProbeRecord:
    return ProbeRecord(
        fingerprint=subject.fingerprint,
        model=subject.name,
        path=str(subject.directory.path.resolve()),
        probed_at=started,
        round=QUESTIONS_VERSION,
        duration_seconds=round(time.time() - started, 3),
        versions=versions(),
        findings=tuple(findings),
    )
