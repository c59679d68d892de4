"""Strategies for invalid requests: mutated bodies, and bytes that are no JSON."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from .bodies import BODIES

Step = str | int

_NUMBERS = (0, -1, 1, 2, 1.5, -0.0, 1e308, -1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30)
_TEXTS = (
    "",
    " ",
    "x",
    "\x00",
    "\u202e",
    "🙂" * 50,
    "x" * 5_000,
    "null",
    "NaN",
    "../../etc/passwd",
    "<|im_end|>",
    "{{ 7 * 7 }}",
    "\ud800",
)
_SHAPES: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"type": "no-such-type"},
    {"type": 5},
    [{}],
    {"role": "user"},
)
_POISON = st.one_of(
    st.sampled_from((None, True, False)),
    st.sampled_from(_NUMBERS),
    st.sampled_from(_TEXTS),
    st.sampled_from(_SHAPES),
    st.text(max_size=20),
    st.integers(),
    st.floats(),
)
_HEADERS = st.sampled_from(
    ({}, {}, {}, {"content-type": "text/plain"}, {"anthropic-version": "2023-06-01"}, {"x-request-id": "r 1"})
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedRequest:
    """A request, and whether to disconnect before the answer's end."""

    path: str
    body: bytes
    headers: dict[str, str]
    leaves_early: bool


@st.composite
def requests(draw: st.DrawFn, valid: Mapping[str, list[dict[str, Any]]] = BODIES) -> FuzzedRequest:
    """Draw a fuzzed request; `valid` are bodies by path."""
    path = draw(st.sampled_from(sorted(valid)))
    text = draw(bodies(valid[path]))
    leaves = draw(st.integers(0, 9)) == 0
    return FuzzedRequest(path=path, body=text, headers=draw(_HEADERS), leaves_early=leaves)


@st.composite
def bodies(draw: st.DrawFn, valid: list[dict[str, Any]]) -> bytes:
    """Draw a mutated body, or bytes that are no JSON."""
    body = deepcopy(draw(st.sampled_from(valid)))
    for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2, 3)))):
        body = draw(_mutated(body))
    # Lone surrogates are written as escapes, which JSON allows; NaN and Infinity as Python writes them, which
    # it does not.
    text = json.dumps(body).encode()
    if draw(st.integers(0, 9)) == 0:
        text = draw(_mangled(text))
    return text


@st.composite
def _mutated(draw: st.DrawFn, body: Any) -> Any:
    """Change one value of the body."""
    if not isinstance(body, dict | list) or not body:
        return deepcopy(draw(_POISON))
    *steps, last = draw(st.sampled_from(list(_places(body))))
    place = body
    for step in steps:
        place = place[step]
    match draw(
        st.sampled_from(("replace", "replace", "replace", "remove", "repeat", "wrap", "rename", "deepen"))
    ):
        case "replace":
            place[last] = deepcopy(draw(_POISON))
        case "remove":
            del place[last]
        case "repeat" if isinstance(place, list):
            place.extend(deepcopy(place[last]) for _ in range(draw(st.sampled_from((1, 20)))))
        case "rename" if isinstance(place, dict):
            place[draw(st.text(max_size=8))] = place.pop(last)
        case "deepen":
            for _ in range(draw(st.sampled_from((2, 150)))):
                place[last] = [place[last]]
        case _:
            place[last] = [place[last]]
    return body


@st.composite
def _mangled(draw: st.DrawFn, text: bytes) -> bytes:
    """Corrupt the JSON text."""
    at = draw(st.integers(0, len(text)))
    match draw(st.sampled_from(("cut", "insert", "twice", "nest", "none"))):
        case "cut":
            return text[:at]
        case "insert":
            return text[:at] + draw(st.binary(min_size=1, max_size=4)) + text[at:]
        case "twice":
            return text + text
        case "nest":
            return b"[" * 20_000
        case _:
            return b""


def _places(value: Any, path: tuple[Step, ...] = ()) -> Any:
    """Yield the paths of all values in `value`."""
    entries: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, inner in entries:
        yield (*path, step)
        yield from _places(inner, (*path, step))
