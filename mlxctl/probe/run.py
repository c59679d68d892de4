"""Probes models one after the other, each in an engine of its own, and keeps what was found.

Event-loop thread only.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from mlxctl.engine import EngineClient, EngineProcess
from mlxctl.engine.client.launcher import Launcher
from mlxctl.errors import MlxctlError, StoreError
from mlxctl.ir import ModelFacts
from mlxctl.probe.interview import Interview
from mlxctl.probe.interview_steps import EMBEDDING_STEPS, ROUND, SPEECH_STEPS, Course
from mlxctl.probe.media_checks import check_senses, refuse_silent
from mlxctl.probe.observer import Watcher
from mlxctl.probe.outcome import ProbeOutcome
from mlxctl.probe.probed_model import Subject, read_subject, versions
from mlxctl.probe.stopwatch import Stopwatch
from mlxctl.probe.targets import Target
from mlxctl.settings import EngineSettings
from mlxctl.stores import CapabilityStore, Finding, ProbeRecord

_MAX_QUEUE = 8


class ProbeRun:
    """One run over any number of models.

    `outcomes` grow model by model; a run that is cancelled keeps what was found until then.

    A model that was asked everything by this version's questions is not asked again, unless `is_forced`. What
    an earlier run left open or failed at is asked, the rest kept, as long as nothing that decides the answers
    has changed.
    """

    def __init__(
        self,
        store: CapabilityStore,
        settings: EngineSettings,
        *,
        watcher: Watcher,
        is_forced: bool = False,
        trust_remote_code: bool = False,
        deadline_seconds: float = 600.0,
        launcher: Callable[[EngineSettings], Launcher] = EngineProcess,
    ) -> None:
        """`deadline_seconds` is the longest time that one answer may take."""
        self.outcomes: list[ProbeOutcome] = []
        self._store = store
        self._settings = settings
        self._watcher = watcher
        self._is_forced = is_forced
        self._trust_remote_code = trust_remote_code
        self._deadline_seconds = deadline_seconds
        self._launcher = launcher

    async def probe(self, targets: Sequence[Target]) -> None:
        """Probe all of them; a model that cannot be asked does not keep the others from it.

        Raises StoreError.
        """
        await asyncio.to_thread(self._store.has_records)
        for target in targets:
            try:
                await self._probe(target)
            except StoreError:
                raise
            except MlxctlError as error:
                self.outcomes.append(ProbeOutcome(name=target.name, problem=" ".join(str(error).split())))

    async def _probe(self, target: Target) -> None:
        if target.directory is None:
            self.outcomes.append(ProbeOutcome(name=target.name, problem=target.problem))
            return
        watch = Stopwatch()
        with watch.times("files"):
            subject = await asyncio.to_thread(
                read_subject, target.directory, trust_remote_code=self._trust_remote_code
            )
        before = None if self._is_forced else await asyncio.to_thread(self._store.find, subject.fingerprint)
        if before is not None and before.is_complete and before.round == ROUND:
            self.outcomes.append(
                ProbeOutcome(name=target.name, directory=target.directory, record=before, was_known=True)
            )
        elif subject.facts is None:
            self._keep(target, _record(subject, refuse_silent(subject.detection), started=time.time()), watch)
        else:
            await self._ask(target, subject, subject.facts, _still_true(before), watch)

    async def _ask(
        self, target: Target, subject: Subject, facts: ModelFacts, known: Sequence[Finding], watch: Stopwatch
    ) -> None:
        started = time.time()
        course = _course(subject, known)
        steps = course.missing_steps()
        self._watcher.began(target.name, len(steps) + 1)
        self._watcher.asks("loading")
        try:
            async with self._engine(subject, facts, watch) as client:
                interview = Interview(
                    client,
                    subject.name,
                    facts,
                    deadline_seconds=self._deadline_seconds,
                    watcher=self._watcher,
                )
                interview.adapter().check_width(interview.loaded.vocabulary_size)
                for step in steps:
                    self._watcher.asks(step.what)
                    with watch.times(step.what):
                        found = await course.take(step, interview)
                    for finding in found:
                        self._watcher.found(finding)
        finally:
            if course.was_begun:
                self._keep(target, _record(subject, course.findings, started=started), watch)
            self._watcher.ended()

    @asynccontextmanager
    async def _engine(
        self, subject: Subject, facts: ModelFacts, watch: Stopwatch
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

    def _keep(self, target: Target, record: ProbeRecord, watch: Stopwatch) -> None:
        """Store the record.

        A small write, done here so that a run which is being cancelled does not lose it.
        """
        kept = self._store.save(record)
        self.outcomes.append(
            ProbeOutcome(name=target.name, directory=target.directory, record=kept, phases=watch.seconds)
        )


def _course(subject: Subject, known: Sequence[Finding]) -> Course:
    """Return what the model is to be asked: one that embeds is asked for vectors only, one that hears what it
    hears.
    """
    purpose = "text" if subject.facts is None else subject.facts.purpose
    if purpose == "text":
        sees = subject.facts is not None and subject.facts.vision is not None
        told = [
            finding
            for finding in check_senses(subject.detection)
            if not (sees and finding.question == "vision")
        ]
        return Course([*told, *known])
    steps, asked = (EMBEDDING_STEPS, "embeddings") if purpose == "embeddings" else (SPEECH_STEPS, "audio")
    told = [finding for finding in refuse_silent(subject.detection) if finding.question != asked]
    return Course([*told, *known], steps)


def _still_true(before: ProbeRecord | None) -> tuple[Finding, ...]:
    if before is None or before.round != ROUND or before.versions != versions():
        return ()
    return tuple(finding for finding in before.findings if not finding.has_failed)


def _record(subject: Subject, findings: Sequence[Finding], *, started: float) -> ProbeRecord:
    return ProbeRecord(
        fingerprint=subject.fingerprint,
        model=subject.name,
        path=str(subject.directory.path.resolve()),
        probed_at=started,
        round=ROUND,
        duration_seconds=round(time.time() - started, 3),
        versions=versions(),
        findings=tuple(findings),
    )
