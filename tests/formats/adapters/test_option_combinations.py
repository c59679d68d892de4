"""The table of option combinations in docs/reference/sampling.md is true."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import ModelAdapter, create_adapter
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from mlxctl.library.demo import MODEL_DIR
from mlxctl.protocols import PROTOCOLS
from tests.option_table import read_option_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "sampling.md"
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
OPTIONS: dict[str, Any] = {
    "temperature": {"temperature": 0.8},
    "top_p": {"top_p": 0.9},
    "top_k": {"top_k": 20},
    "min_p": {"min_p": 0.1},
    "typical_p": {"typical_p": 0.9},
    "xtc_probability": {"xtc_probability": 0.5},
    "dry_multiplier": {"dry_multiplier": 0.8},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "presence_penalty": {"presence_penalty": 0.5},
    "logit_bias": {"logit_bias": {"5": 1}},
    "min_tokens": {"min_tokens": 3},
    "hlg": {"hlg": {"enabled": True}},
    "seed": {"seed": 1},
    "logprobs": {"logprobs": True},
    "n": {"n": 2},
    "stop": {"stop": "end"},
    "thinking_budget": {"thinking_budget": 5},
    "response_format": {"response_format": {"type": "json_object"}},
    "forced tool_choice": {"tool_choice": "required", "tools": [{"type": "function", "function": FUNCTION}]},
    "strict tools": {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
}


@pytest.fixture(scope="module")
def demo() -> ModelAdapter:
    return create_adapter(read_model(MODEL_DIR), name="demo")


def combine(demo: ModelAdapter, first: str, second: str) -> str:
    """Return "yes" if both options are accepted, "no" if one raises."""
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "Hi"}],
        **OPTIONS[first],
        **OPTIONS[second],
    }
    try:
        demo.prepare_input(PROTOCOLS["chat"].parse_alone(json.dumps(body).encode()))
    except InvalidRequest as refused:
        return "no" if refused.param in (first, second) else f"refused as {refused.param}"
    return "yes"


def test_option_table_matches_every_pair(demo: ModelAdapter) -> None:
    found = {frozenset(pair): combine(demo, *pair) for pair in combinations(OPTIONS, 2)}
    assert read_option_table(DOCUMENT) == found
    assert "no" in found.values()
