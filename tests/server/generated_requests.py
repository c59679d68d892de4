"""Requests that schemathesis generates for a described operation.

A test imports this module when it runs: importing schemathesis takes longer than all other imports.
"""

from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import CheckFunction
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .openapi_validation import DOCUMENT, check_answer, check_stream


def every_field_is_described(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Check that an answer or stream has only described fields."""
    path, kind = case.operation.path, response.headers["content-type"][0]
    if kind.startswith("text/event-stream"):
        check_stream(response.text, path)
    elif kind.startswith("application/json") and case.method.lower() in DOCUMENT["paths"][path]:
        check_answer(response.json(), case.method.lower(), path, response.status_code)


CHECKS: list[CheckFunction] = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    every_field_is_described,
]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


def requests(path: str, method: str) -> st.SearchStrategy[Any]:
    """Return valid and invalid requests of an operation."""
    operation = SCHEMA[path][method]
    return st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])
