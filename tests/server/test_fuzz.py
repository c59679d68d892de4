"""A few hundred fuzzed requests; `python -m tests.fuzz` sends more."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz.mutations import FuzzedRequest, requests
from fuzz.target import with_short_context
from fuzz.volley import AT_ONCE, Volley
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .process import serving


@pytest.fixture(scope="module")
def volley(endless_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volley]:
    target = with_short_context(endless_model, tmp_path_factory.mktemp("models") / "short")
    with serving(target) as running:
        sending = Volley(running.url)
        yield sending
        sending.close()


@settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(batch=st.lists(requests(), min_size=AT_ONCE, max_size=AT_ONCE))
def test_every_request_is_answered_or_refused_in_its_protocols_shape(
    volley: Volley, batch: list[FuzzedRequest]
) -> None:
    volley.send(batch)


def test_no_request_is_left_open(volley: Volley) -> None:
    assert volley.num_sent >= 200
    assert not any(volley.leftovers().values())
