"""Budget of a request: what can never fit is rejected.

With its arithmetic.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.engine import ModelLoaded
from mlxctl.inference.session import check_budget
from mlxctl.ir.errors import ContextOverBudget
from mlxctl.ir.kv_cache_size import KVWindow, cache_bytes, tokens_within

WINDOWS = st.lists(st.tuples(st.integers(1, 4096), st.integers(1, 1000)), max_size=3)


def check(
    num_prompt: int,
    max_tokens: int,
    *,
    sets: bool = True,
    strict: bool = True,
    windows: Sequence[KVWindow] = (),
    kv_bytes_per_token: int = 1000,
    memory_limit_bytes: int = 12_000_000,
) -> None:
    loaded = ModelLoaded(
        name="m",
        vocabulary_size=9,
        weights_bytes=2_000_000,
        kv_bytes_per_token=kv_bytes_per_token,
        kv_windows=list(windows),
        cache_kind="plain",
        load_seconds=0.1,
    )
    check_budget(
        loaded,
        num_prompt_tokens=num_prompt,
        max_tokens=max_tokens,
        sets_max_tokens=sets,
        memory_limit_bytes=memory_limit_bytes,
        admission="strict" if strict else "prompt",
    )


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "sets", "strict"),
    [
        (9_000, 1_000, True, True),
        (9_744, 5_000, True, False),
        (9_744, 50_000, False, True),
        (10_000, 0, True, True),
        (0, 10_000, True, True),
    ],
)
def test_request_within_budget_is_admitted(
    num_prompt: int, max_tokens: int, sets: bool, strict: bool
) -> None:
    check(num_prompt, max_tokens, sets=sets, strict=strict)


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "sets", "strict", "expected_message"),
    [
        (9_001, 1_000, True, True, "exceed context limit: 9001 + 1000 > 10000,"),
        (9_745, 5_000, True, False, "prompt is too long: 9745 tokens > 9744 maximum"),
        (9_745, 50_000, False, True, "prompt is too long: 9745 tokens > 9744 maximum"),
        (20_000, 0, True, True, "prompt is too long: 20000 tokens > 10000 maximum"),
    ],
)
def test_request_over_budget_is_refused_with_figures(
    num_prompt: int, max_tokens: int, sets: bool, strict: bool, expected_message: str
) -> None:
    with pytest.raises(ContextOverBudget) as refused:
        check(num_prompt, max_tokens, sets=sets, strict=strict)

    assert expected_message in str(refused.value)
    assert "10.00 MB are left of the memory limit of 12.00 MB beside 2.00 MB of weights" in str(refused.value)


def test_sliding_windows_cost_no_more_than_their_length() -> None:
    check(15_000, 100, windows=[(100, 500)])
    with pytest.raises(ContextOverBudget):
        check(20_000, 100, windows=[(100, 500)])


@given(st.integers(2_000_000, 10**10), WINDOWS, st.integers(1, 1000))
def test_reported_context_is_admitted_and_one_token_more_is_not(
    limit: int, windows: list[tuple[int, int]], growing: int
) -> None:
    per_token = growing + sum(size for _, size in windows)
    reported = tokens_within(limit - 2_000_000, bytes_per_token=per_token, windows=windows)
    model = {"windows": windows, "kv_bytes_per_token": per_token, "memory_limit_bytes": limit}

    check(reported, 0, **model)
    with pytest.raises(ContextOverBudget, match=f"> {reported} maximum"):
        check(reported + 1, 0, **model)


@given(st.integers(0, 10**10), WINDOWS, st.integers(0, 1000))
def test_largest_cache_fits_and_one_token_more_does_not(
    num_bytes: int, windows: list[tuple[int, int]], growing: int
) -> None:
    per_token = growing + sum(size for _, size in windows)
    most = tokens_within(num_bytes, bytes_per_token=per_token, windows=windows)

    assert cache_bytes(most, bytes_per_token=per_token, windows=windows) <= num_bytes
    if most < (1 << 40) - 1:
        assert cache_bytes(most + 1, bytes_per_token=per_token, windows=windows) > num_bytes
