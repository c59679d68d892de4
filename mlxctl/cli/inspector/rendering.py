"""Tables, trees, counters and explanations of the cache for the terminal.

Texts come from prompts, so they are never parsed as markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from mlxctl.cli.inspector.branches import Branch, path_text
from mlxctl.cli.inspector.comparison import BranchComparison
from mlxctl.cli.inspector.disk_explanation import DiskExplanation
from mlxctl.ir.errors import shortened
from mlxctl.terminal_text import escape_control_characters, escape_line

_NUM_CHARS_BEFORE = 400
_GUIDE_COLUMNS, _MIN_LABEL_COLUMNS = 4, 20
_HITS = {
    "exact": "the whole prompt was cached",
    "supersequence": "the whole prompt was cached, with what followed it",
    "prefix": "the prompt continues a cached one",
    "common_prefix": "the prompt shares the beginning of a cached one",
    "checkpoint": "cached up to a checkpoint",
    "miss": "nothing was cached",
}


def branches_table(trees: Mapping[str, Sequence[Branch]], *, now: float) -> RenderableType:
    """Return a table for each model, with one row per leaf conversation."""
    parts: list[RenderableType] = []
    for model, roots in trees.items():
        # A column of its own would leave no room for texts in narrow terminals.
        parts += [plain(model), _leaves([path[-1] for root in roots for path in root.walk()], now)]
    return Group(*parts) if parts else Text("The cache is empty.")


def _leaves(branches: Sequence[Branch], now: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("key", no_wrap=True)
    for heading in ("tokens", "unshared", "size", "hits", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("tier", no_wrap=True)
    # Rich narrows only columns that may wrap: its cells, not the column, are kept on one line.
    table.add_column("conversation", overflow="ellipsis")
    for leaf in branches:
        if not leaf.branches and leaf.key is not None:
            tokens, own = f"{leaf.end:,}", f"{leaf.num_tokens:,}"
            used = "–" if leaf.num_hits is None else ago(leaf.used_at, now=now)
            hits = "–" if leaf.num_hits is None else str(leaf.num_hits)
            label = _label(leaf)
            label.no_wrap = True
            key = plain(leaf.key[:12])
            table.add_row(key, tokens, own, _size_of(leaf), hits, used, _tier(leaf), label)
    return table


def branches_tree(trees: Mapping[str, Sequence[Branch]], *, now: float, width: int) -> RenderableType:
    """Return the tree; labels are cut to lines of `width` columns."""
    if not trees:
        return Text("The cache is empty.")
    roots = []
    for model, branches in trees.items():
        every = [path[-1] for branch in branches for path in branch.walk()]
        tree = Tree(Text.assemble((plain(model).plain, "bold"), f"  {_sizes(every)}"), guide_style="dim")
        for branch in branches:
            _grow(tree, branch, now, width - _GUIDE_COLUMNS)
        roots.append(tree)
    return Group(*roots)


def counters(stats: Mapping[str, Any]) -> RenderableType:
    """Return the size and savings of the cache."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    if "cache_bytes" in stats:
        _count_memory(table, stats)
    if stats.get("cache_disk") is not None:
        _count_disk(table, stats["cache_disk"])
    return table


def _count_memory(table: Table, stats: Mapping[str, Any]) -> None:
    held, budget = stats["cache_bytes"], stats["cache_max_bytes"]
    table.add_row("in memory", f"{size(held)} of {size(budget)}, {stats['cache_chunks']:,} chunks")
    table.add_row("evicted", f"{stats['cache_evicted']:,} chunks")
    read, saved = stats["num_prompt_tokens"], stats["cache_tokens_reused"]
    share = f" ({100 * saved / (read + saved):.1f}% of all prompt tokens)" if read + saved else ""
    table.add_row("tokens saved", f"{saved:,}{share}")
    num_requests = sum(stats["cache_hits"].values())
    for kind, num in stats["cache_hits"].items():
        table.add_row(plain(f"  {kind}"), f"{num:>6,}  {_HITS.get(kind, '')}" if num_requests else "–")


def _count_disk(table: Table, disk: Mapping[str, Any]) -> None:
    counts = f"{disk['num_chunks']:,} chunks, {disk['num_states']:,} states"
    table.add_row("on disk", f"{size(disk['file_bytes'])} of {size(disk['max_bytes'])}, {counts}")
    # Errors are counted only by a server.
    if disk["num_dropped"] is not None:
        table.add_row("skipped writes", f"{disk['num_dropped']:,} (disk full or busy)")
        table.add_row("corrupt records", f"{disk['num_damaged']:,} (count as misses)")


def explanations(found: Iterable[Mapping[str, Any]]) -> RenderableType:
    """Return one paragraph per request."""
    paragraphs = [_explanation(explanation) for explanation in found]
    return Group(*paragraphs) if paragraphs else Text("This server has received no request yet.")


def branch_facts(path: Sequence[Branch], *, now: float) -> RenderableType:
    """Return all details of one branch."""
    branch = path[-1]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    expiry = branch.chunks[-1].expires_at
    checkpoints = sorted(
        {position for part in path for chunk in part.chunks for position in chunk.checkpoints}
    )
    for name, value in (
        ("key", branch.key or ""),
        ("conversation", _label(branch).plain),
        ("tokens", f"{branch.start:,} to {branch.end:,}"),
        (
            "continues",
            " › ".join(part.key[:12] if part.key else _label(part).plain[:24] for part in path[:-1])
            or "nothing",
        ),
        ("size", f"{_size_of(branch)} ({branch.tier})"),
        ("hits", "only counted by a server" if branch.num_hits is None else str(branch.num_hits)),
        ("last use", "only known by a server" if branch.num_hits is None else ago(branch.used_at, now=now)),
        ("expires", "never" if expiry is None else f"in {_span(expiry - now)}" if expiry > now else "now"),
        ("pinned", "yes" if branch.is_pinned else "no"),
        ("checkpoints", ", ".join(f"{position:,}" for position in checkpoints) or "none needed"),
    ):
        table.add_row(name, plain(value))
    text = branch.text
    before = (path_text(path[:-1]) or "")[-_NUM_CHARS_BEFORE:]
    return Group(
        table,
        Text(),
        Text.assemble((f"…{plain_lines(before).plain}" if before else "", "dim"), plain_lines(text))
        if text is not None
        else Text("(its model is neither served nor on this machine)", style="dim"),
    )


def plain(text: str) -> Text:
    """Return one line of text without control characters.

    A very long one is shortened.
    """
    return Text(escape_line(shortened(text)))


def plain_lines(text: str) -> Text:
    """Return lines of text without control characters."""
    return Text(escape_control_characters(text))


def size(num_bytes: int) -> str:
    """Return bytes in decimal units."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.1f} {unit}"
    return f"{num_bytes} B"


def count(number: int | None) -> str:
    """Return a number for a table; unknown ones are a dash."""
    return "–" if number is None else f"{number:,}"


def ago(at: float | None, *, now: float) -> str:
    """Return the time since a moment."""
    return "before start" if at is None else f"{_span(max(0.0, now - at))} ago"


def _span(seconds: float) -> str:
    for unit, factor in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= factor:
            return f"{seconds / factor:.0f} {unit}"
    return f"{seconds:.0f} s"


def _grow(tree: Tree, branch: Branch, now: float, width: int) -> None:
    use = (
        f"  {branch.num_hits} hit{'s' * (branch.num_hits != 1)}  {ago(branch.used_at, now=now)}"
        if branch.num_hits is not None
        else ""
    )
    shared = f"shared by {branch.num_conversations}  " if branch.branches else ""
    facts = f"  {shared}{branch.num_tokens:,} tokens  {_size_of(branch)}{use}  {_tier(branch)}"
    key = f"  {branch.key[:12]}" if branch.key is not None else ""
    label = _label(branch)
    label.truncate(max(width - len(facts) - len(key), _MIN_LABEL_COLUMNS), overflow="ellipsis")
    node = tree.add(Text.assemble(label, (facts, "dim"), (key, "cyan"), no_wrap=True, overflow="ellipsis"))
    for child in branch.branches:
        _grow(node, child, now, width - _GUIDE_COLUMNS)


def _tier(branch: Branch) -> str:
    return branch.tier + (", pinned" if branch.is_pinned else "")


def _label(branch: Branch) -> Text:
    if branch.text is None:
        return Text(
            "(unknown model)" if branch.through[0].model is None else "(its model is not here)", style="dim"
        )
    return plain(branch.label) if branch.label else Text("(chat template)", style="dim")


def _size_of(branch: Branch) -> str:
    return size(max(branch.memory_bytes, branch.disk_bytes))


def _sizes(branches: Sequence[Branch]) -> str:
    in_memory, on_disk = (
        sum(branch.memory_bytes for branch in branches),
        sum(branch.disk_bytes for branch in branches),
    )
    return ", ".join(
        [
            *([f"{size(in_memory)} in memory"] if in_memory else []),
            *([f"{size(on_disk)} on disk"] if on_disk else []),
        ]
    )


def _explanation(found: Mapping[str, Any]) -> RenderableType:
    num, known = found["num_prompt_tokens"], found["num_cached_tokens"]
    share = 100 * known / max(num, 1)
    style = "green" if share >= 90 else "yellow" if share >= 50 else "red"
    title = Text.assemble(
        (f"#{found['number']}", "bold"),
        f" {plain(found['model']).plain}  ",
        (f"{known:,} of {num:,} tokens cached", style),
    )
    lines: list[RenderableType] = [
        title,
        Text.assemble("  ", (found["reason"], "bold"), ": ", plain(found["sentence"])),
    ]
    divergence = found["divergence"]
    if divergence is not None:
        lines.append(Padding(_difference(divergence, found["compared_with"]), (0, 0, 0, 2)))
    return Group(*lines)


def disk_explanation(found: DiskExplanation) -> RenderableType:
    """Return the prompt's tokens on disk, and the first difference."""
    known = f"{found.num_known_tokens:,} of {found.num_prompt_tokens:,} tokens are on disk"
    title = Text.assemble(
        (plain(found.model).plain, "bold"), f"  {known}, {found.num_cached_tokens:,} can be reused"
    )
    if found.here is None or found.before is None or found.num_known_tokens == found.num_prompt_tokens:
        return title
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", justify="right")
    table.add_column(overflow="fold")
    if found.place is not None:
        table.add_row(f"from token {found.num_known_tokens:,}", f"in {plain(found.place).plain}")
    before = Text.assemble(("…", "dim"), plain(found.before))
    table.add_row("now", Text.assemble(before, (plain(found.here).plain, "red")))
    there = "(no stored text continues here)" if found.there is None else plain(found.there).plain
    table.add_row("on disk", Text.assemble(before, (there, "green")))
    return Group(title, Padding(table, (0, 0, 0, 2)))


def _difference(divergence: Mapping[str, Any], number: int | None) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", justify="right")
    table.add_column(overflow="fold")
    part = f", {divergence['part']}" if divergence.get("part") else ""
    table.add_row(f"from token {divergence['position']:,}", plain(f"in {divergence['place']}{part}"))
    before = Text.assemble(("…", "dim"), plain(divergence["before"]))
    table.add_row("now", Text.assemble(before, (plain(divergence["here"]).plain, "red")))
    table.add_row(f"in #{number}", Text.assemble(before, (plain(divergence["there"]).plain, "green")))
    return table


def comparison(found: BranchComparison) -> RenderableType:
    """Return two branches side by side."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", justify="right")
    table.add_column(overflow="fold")
    table.add_row("shared", f"{found.num_shared_tokens:,} tokens, {found.num_shared_characters:,} characters")
    before = Text.assemble(("…", "dim"), plain(found.before))
    for name, rest, style in (("A", found.one, "red"), ("B", found.other, "green")):
        table.add_row(name, Text.assemble(before, (plain(rest).plain or "(ends)", style)))
    return table
