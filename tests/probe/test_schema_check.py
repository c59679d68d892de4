"""What fits the schema that models are asked to keep to."""

import json

import pytest

from mlxctl.probe.questions import fits_schema

RIGHT = {"city": "Paris", "continent": "Europe"}


def test_json_that_fits_does_whatever_its_spaces_are() -> None:
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
def test_anything_else_does_not(text: str) -> None:
    assert not fits_schema(text)
