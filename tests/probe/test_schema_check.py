"""Texts that fit the schema."""

import json

import pytest

from mlxctl.probe.questions import fits_schema

RIGHT = {"city": "Paris", "continent": "Europe"}


def test_fitting_json_passes_with_any_whitespace() -> None:
    assert fits_schema(json.dumps(RIGHT))
    assert fits_schema(json.dumps(RIGHT, indent=4) + "\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "[]",
        json.dumps(RIGHT)[:-1],
        "Here it is: " + json.dumps(RIGHT),
        json.dumps({"city": "Paris"}),
        json.dumps({**RIGHT, "country": "France"}),
        json.dumps({**RIGHT, "city": None}),
        json.dumps({**RIGHT, "city": "x" * 41}),
        json.dumps({**RIGHT, "continent": "Atlantis"}),
        json.dumps({**RIGHT, "continent": ["Europe"]}),
        "[" * 100_000,
    ],
)
def test_other_text_does_not_fit_the_schema(text: str) -> None:
    assert not fits_schema(text)
