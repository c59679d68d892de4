"""Views of a cache listing."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from syrupy.assertion import SnapshotAssertion

from mlxctl.cli.inspector.branches import build_trees, find_branch, num_common, path_text
from mlxctl.cli.inspector.cached_chunk import ListedChunk
from mlxctl.cli.inspector.comparison import compare
from mlxctl.cli.inspector.labels import UserMarkers
from mlxctl.cli.inspector.rendering import (
    branch_facts,
    branches_table,
    branches_tree,
    comparison,
    counters,
    explanations,
)
from mlxctl.ir.errors import InvalidRequest

NOW = 1_000_000.0
SYSTEM = "<|im_start|>system\n" + "You are a careful agent. " * 10
MARKERS = {"tiny": UserMarkers("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")}


def chunk(key: str, parent: str | None = None, **fields: Any) -> ListedChunk:
    text = fields.get("text", SYSTEM)
    usual: dict[str, Any] = {
        "model": "tiny",
        "namespace": "ab" * 16,
        "start": 0 if parent is None else len(SYSTEM),
        "num_tokens": len(text or ""),
        "text": text,
        # A token for each letter.
        "token_ids": None if text is None else [*map(ord, text)],
        "memory_bytes": 524_288,
        "disk_bytes": 0,
        "checkpoints": [],
        "num_hits": 3,
        "used_at": NOW - 90,
        "expires_at": None,
        "is_pinned": False,
        "is_in_use": False,
    }
    return ListedChunk(key=key * 32, parent=None if parent is None else parent * 32, **(usual | fields))


def listing() -> list[ListedChunk]:
    """Return two conversations on one system prompt, and an unserved model's.

    The least recently used is first.
    """
    return [
        chunk(
            "d",
            model=None,
            text=None,
            memory_bytes=0,
            disk_bytes=70_000_000,
            used_at=None,
            num_tokens=100,
            num_hits=0,
        ),
        chunk(
            "c",
            "a",
            text=" careful.<|im_end|>\n<|im_start|>user\nTell me of "
            "hills[/b]\x1b<|im_end|>\n<|im_start|>assistant\n",
            num_hits=0,
            is_pinned=True,
        ),
        chunk(
            "b",
            "a",
            text=" careful.<|im_end|>\n<|im_start|>user\nTell me of boats",
            used_at=NOW - 5,
            expires_at=NOW + 300,
        ),
        chunk("a", checkpoints=[120, 256]),
    ]


def drawn(*what: RenderableType, width: int = 150) -> str:
    """Return the view as it is written to a pipe."""
    console = Console(width=width, highlight=False, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(*what)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_the_table(golden: SnapshotAssertion) -> None:
    assert drawn(branches_table(build_trees(listing(), MARKERS), now=NOW)) == golden


@pytest.mark.parametrize("width", [80, 150])
def test_long_conversation_leaves_the_other_columns_whole(width: int) -> None:
    long = chunk("e", model="mlx-community/Qwen3-8B-4bit", text=f"<|im_start|>user\n{'word ' * 100}")
    table = branches_table(build_trees([long], MARKERS), now=NOW)
    model, header, row = drawn(table, width=width).splitlines()
    assert model == "mlx-community/Qwen3-8B-4bit"
    assert " ".join(header.split()) == "key tokens unshared size hits used tier conversation"
    assert row.startswith(f"{'e' * 12}  ")
    assert row.endswith("…")


def test_the_tree(golden: SnapshotAssertion) -> None:
    assert drawn(branches_tree(build_trees(listing(), MARKERS), now=NOW, width=150)) == golden


def test_one_branch(golden: SnapshotAssertion) -> None:
    assert drawn(branch_facts(find_branch(build_trees(listing()), "bb"), now=NOW)) == golden


def test_two_branches(golden: SnapshotAssertion) -> None:
    trees = build_trees(listing())
    assert drawn(comparison(compare(find_branch(trees, "b"), find_branch(trees, "c")))) == golden


def test_counters(golden: SnapshotAssertion) -> None:
    hits = {"exact": 1, "prefix": 0, "common_prefix": 12, "checkpoint": 0, "miss": 2}
    stats = {
        "cache_bytes": 1_100_000,
        "cache_max_bytes": 4_300_000_000,
        "cache_chunks": 5,
        "cache_evicted": 7,
        "cache_hits": hits,
    }
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
    parted = {
        "position": 671,
        "place": "message 2 (user)",
        "before": "user\nTell me of ",
        "here": "hills",
        "there": "[b]boats",
    }
    found = [
        usual
        | {"number": 3, "num_cached_tokens": 686, "reason": "all_known", "sentence": "all of it was known"},
        usual
        | {
            "number": 2,
            "num_cached_tokens": 671,
            "reason": "message_changed",
            "sentence": "in message 2 (user), it is another",
        }
        | {"divergence": parted, "compared_with": 1},
        usual
        | {
            "number": 1,
            "num_cached_tokens": 0,
            "reason": "first",
            "sentence": "nothing like it was asked before",
        },
    ]
    assert drawn(explanations(found)) == golden


def test_empty_cache_and_new_server_are_reported() -> None:
    assert drawn(branches_tree({}, now=NOW, width=80)) == "The cache is empty."
    assert drawn(explanations([])) == "This server has received no request yet."


def test_run_without_fork_is_one_branch() -> None:
    trees = build_trees([chunk("b", "a"), chunk("a")])
    (branch,) = trees["tiny"]
    assert (branch.key, branch.start, branch.end, branch.branches) == ("b" * 32, 0, 2 * len(SYSTEM), [])


def test_chunk_without_parent_is_a_separate_tree() -> None:
    assert [branch.key for branch in build_trees([chunk("b", "x")])["tiny"]] == ["b" * 32]


@pytest.mark.parametrize("prefix", ["", "e", "zz"])
def test_unknown_key_is_rejected(prefix: str) -> None:
    with pytest.raises(InvalidRequest, match="mlxctl cache ls"):
        find_branch(build_trees(listing()), prefix)


def test_ambiguous_key_is_rejected() -> None:
    both: Iterable[ListedChunk] = [chunk("ab" + "c" * 14, text="one"), chunk("ab" + "d" * 14, text="two")]
    with pytest.raises(InvalidRequest, match="2 branches"):
        find_branch(build_trees(both), "ab")


def test_conversations_in_one_chunk_share_their_prefix() -> None:
    """Three short chats with one system prompt fill no chunk."""
    questions = ("Tell me of boats", "Tell me of hills", "What time is it?")
    listed = [
        chunk(letter, text=f"{SYSTEM}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n")
        for letter, text in zip("abc", questions, strict=True)
    ]

    trees = build_trees(listed, MARKERS)

    (shared,) = trees["tiny"]
    head = f"{SYSTEM}<|im_end|>\n<|im_start|>user\n"
    assert (shared.num_tokens, shared.num_conversations, shared.key) == (len(head), 3, None)
    assert shared.label.startswith("You are a careful agent.")
    labels = [path[-1].label for path in shared.walk() if not path[-1].branches]
    assert sorted(labels) == sorted(questions)
    assert sum(path[-1].memory_bytes for path in shared.walk()) == sum(each.memory_bytes for each in listed)
    found = compare(find_branch(trees, "a"), find_branch(trees, "b"))
    assert (found.num_shared_tokens, found.num_shared_characters) == (len(head + "Tell me of "),) * 2


TOKENS = st.lists(
    st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=8, unique_by=tuple
)


@given(prompts=TOKENS)
def test_tree_contains_every_prompt_and_shares_prefixes(
    prompts: list[list[int]],
) -> None:
    listed = [
        chunk(f"{number:x}", text="".join(map(str, prompt)), token_ids=prompt, num_tokens=len(prompt))
        for number, prompt in enumerate(prompts)
    ]
    trees = build_trees(listed)

    paths = [find_branch(trees, each.key) for each in listed]
    for path, prompt in zip(paths, prompts, strict=True):
        assert sum(branch.num_tokens for branch in path) == path[-1].end
        assert (path_text(path) or "").startswith("".join(map(str, prompt)))
    for one, other in combinations(range(len(prompts)), 2):
        shared = num_common(prompts[one], prompts[other])
        if shared < min(len(prompts[one]), len(prompts[other])):
            assert compare(paths[one], paths[other]).num_shared_tokens == shared
    assert sum(path[-1].memory_bytes for tree in trees["tiny"] for path in tree.walk()) == sum(
        each.memory_bytes for each in listed
    )
