"""Probe records for tests, and strategies that generate them."""

from hypothesis import strategies as st

from mlxctl.state.stores import QUESTIONS, Exchange, Finding, ProbeRecord

TEXTS = st.text(max_size=40)
VALUES = st.dictionaries(
    TEXTS, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS | st.lists(TEXTS), max_size=3
)
EXCHANGES = st.builds(
    Exchange,
    prompt=TEXTS,
    output=TEXTS,
    parser_id=st.none() | TEXTS,
    num_tokens=st.integers(0, 10**6),
    duration_seconds=st.floats(0, 1e6),
)


def findings(question: str) -> st.SearchStrategy[Finding]:
    """Any finding on this question; a failed one is unknown."""
    rest = {
        "question": st.just(question),
        "reason": TEXTS,
        "value": VALUES,
        "exchanges": st.lists(EXCHANGES, max_size=2).map(tuple),
    }
    answered = st.builds(Finding, verdict=st.sampled_from(["yes", "no", "unknown"]), **rest)
    return answered | st.builds(Finding, verdict=st.just("unknown"), has_failed=st.just(True), **rest)


RECORDS = st.builds(
    ProbeRecord,
    fingerprint=st.sampled_from(["aa", "bb"]),
    model=TEXTS,
    path=TEXTS,
    probed_at=st.floats(0, 4e9),
    round=st.integers(1, 99),
    duration_seconds=st.floats(0, 1e6),
    versions=st.dictionaries(TEXTS, TEXTS, max_size=3),
    findings=st.tuples(*(st.none() | findings(question) for question in QUESTIONS)).map(
        lambda found: tuple(filter(None, found))
    ),
)


def record(*answers: Finding, model: str = "org/model", fingerprint: str = "aa") -> ProbeRecord:
    """Return a record with these findings."""
    return ProbeRecord(
        fingerprint=fingerprint,
        model=model,
        path="/somewhere",
        probed_at=1.0,
        round=1,
        versions={"mlxctl": "1"},
        findings=answers,
    )


CALLS_TOOLS = Finding(
    question="tools", verdict="yes", reason="2 of 2", value={"parser": "mistral", "delivery": "injected"}
)
DOES_NOT_THINK = Finding(question="thinking", verdict="no", reason="nothing shows it")
BROKE_DOWN = Finding(question="tools", verdict="unknown", reason="the engine died", has_failed=True)
