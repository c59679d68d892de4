"""What people see of a cache, drawn from listings that are written down here."""

from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console, RenderableType
from syrupy.assertion import SnapshotAssertion

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.branches import build_trees, find_branch
from mlxctl.inspector.comparison import compare
from mlxctl.inspector.rendering import branch_facts, branches_table, branches_tree, comparison, counters, explanations
from mlxctl.inspector.server import CachedChunk

NOW = 1_000_000.0
SYSTEM = "<|im_start|>system\nYou are a careful agent. " * 6


def chunk(key: str, parent: str | None = None, **fields: Any) -> CachedChunk:
    usual: dict[str, Any] = {
        "model": "tiny",
        "namespace": "ab" * 16,
        "start": 0 if parent is None else 256,
        "num_tokens": 256 if parent is None else 40,
        "text": SYSTEM,
        "memory_bytes": 524_288,
        "disk_bytes": 0,
        "checkpoints": [],
        "num_hits": 3,
        "used_at": NOW - 90,
        "expires_at": None,
        "is_pinned": False,
        "is_in_use": False,
    }
    return CachedChunk(key=key * 32, parent=None if parent is None else parent * 32, **(usual | fields))


def listing() -> list[CachedChunk]:
    """Two conversations on one trunk, and one of a model that is not served any more; the least recently used first."""
    return [
        chunk("d", model=None, text=None, memory_bytes=0, disk_bytes=70_000_000, used_at=None, num_tokens=100, num_hits=0),
        chunk("c", "a", text=" careful.<|im_end|>\n<|im_start|>user\nTell me of hills[/b]\x1b", num_hits=0, is_pinned=True),
        chunk("b", "a", text=" careful.<|im_end|>\n<|im_start|>user\nTell me of boats", used_at=NOW - 5, expires_at=NOW + 300),
        chunk("a", checkpoints=[120, 256]),
    ]


def drawn(*what: RenderableType) -> str:
    """Return it as it is written to a pipe."""
    console = Console(width=150, highlight=False, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(*what)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_the_table(golden: SnapshotAssertion) -> None:
    assert drawn(branches_table(build_trees(listing()), now=NOW)) == golden


def test_the_tree(golden: SnapshotAssertion) -> None:
    assert drawn(branches_tree(build_trees(listing()), now=NOW)) == golden


def test_one_branch(golden: SnapshotAssertion) -> None:
    assert drawn(branch_facts(find_branch(build_trees(listing()), "bb"), now=NOW)) == golden


def test_two_branches(golden: SnapshotAssertion) -> None:
    trees = build_trees(listing())
    assert drawn(comparison(compare(find_branch(trees, "b"), find_branch(trees, "c")))) == golden


def test_counters(golden: SnapshotAssertion) -> None:
    hits = {"exact": 1, "prefix": 0, "common_prefix": 12, "checkpoint": 0, "miss": 2}
    stats = {"cache_bytes": 1_100_000, "cache_max_bytes": 4_300_000_000, "cache_chunks": 5, "cache_evicted": 7, "cache_hits": hits}
    disk = {
        "file_bytes": 70_000_000,
        "max_bytes": 10_700_000_000,
        "num_chunks": 9,
        "num_states": 2,
        "num_dropped": 1,
        "num_damaged": 3,
    }
    stats |= {"num_prompt_tokens": 700, "cache_tokens_reused": 1_300, "cache_disk": disk}
    assert drawn(counters(stats)) == golden


def test_explanations(golden: SnapshotAssertion) -> None:
    usual = {"model": "tiny", "num_prompt_tokens": 687, "divergence": None, "compared_with": None}
    parted = {"position": 671, "place": "message 2 (user)", "before": "user\nTell me of ", "here": "hills", "there": "[b]boats"}
    found = [
        usual | {"number": 3, "num_cached_tokens": 686, "reason": "all_known", "sentence": "all of it was known"},
        usual
        | {"number": 2, "num_cached_tokens": 671, "reason": "message_changed", "sentence": "in message 2 (user), it is another"}
        | {"divergence": parted, "compared_with": 1},
        usual | {"number": 1, "num_cached_tokens": 0, "reason": "first", "sentence": "nothing like it was asked before"},
    ]
    assert drawn(explanations(found)) == golden


def test_an_empty_cache_and_a_server_that_was_never_asked_say_so() -> None:
    assert drawn(branches_tree({}, now=NOW)) == "The cache is empty."
    assert drawn(explanations([])) == "This server has seen no request yet."


def test_a_run_without_a_fork_is_one_branch_and_its_end_is_its_key() -> None:
    trees = build_trees([chunk("b", "a"), chunk("a")])
    (branch,) = trees["tiny"]
    assert (branch.key, branch.start, branch.end, branch.branches) == ("b" * 32, 0, 296, [])


def test_what_lost_its_parent_between_two_pages_is_a_tree_of_its_own() -> None:
    assert [branch.key for branch in build_trees([chunk("b", "x")])["tiny"]] == ["b" * 32]


@pytest.mark.parametrize("prefix", ["", "e", "zz"])
def test_a_key_that_names_no_branch_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidRequest, match="mlxctl cache ls"):
        find_branch(build_trees(listing()), prefix)


def test_a_key_that_names_two_branches_is_refused() -> None:
    both: Iterable[CachedChunk] = [chunk("ab" + "c" * 14), chunk("ab" + "d" * 14)]
    with pytest.raises(InvalidRequest, match="2 branches"):
        find_branch(build_trees(both), "ab")
