"""The rules that keep the house in order, run as tests: rooms, names, and what may never be committed."""

import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {
    "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "constraints.txt", "docs", "mkdocs.yml", "pyproject.toml",
    "mlxctl", "packaging", "tests", "tools", "snapshots", "bench_results", "completions",
}  # fmt: skip


def committed() -> list[Path]:
    """Files that git knows or would add; without git, nothing can have been committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_rooms_import_only_what_they_may() -> None:
    # In a process of its own: it sets up logging, and other tests read what is logged.
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("mlxctl", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(list(TopologicalSorter(imports).static_order())) == len(imports)


def test_the_top_level_holds_nothing_but_what_the_house_names() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in committed()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_no_room_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    found = [path for path in committed() if drawers & set(path.relative_to(ROOT).with_suffix("").parts)]
    assert found == []


def test_every_package_and_module_of_ours_says_what_it_is() -> None:
    modules = [
        path for path in committed() if path.suffix == ".py" and "mlxctl" in path.relative_to(ROOT).parts[:1]
    ]
    silent = [path for path in modules if not path.read_text().lstrip().startswith(('"""', 'r"""'))]
    assert silent == []


def test_nothing_committed_names_a_registry_or_holds_somebody_elses_weights() -> None:
    ours = [ROOT / "mlxctl" / "demo" / "model", ROOT / "tests" / "tiny_models" / "trained"]
    weights = [
        path for path in committed() if path.suffix in {".safetensors", ".gguf", ".npz", ".bin", ".pt"}
    ]
    assert [path for path in weights if not any(place in path.parents for place in ours)] == []
    assert not re.search(r"https?://|--index|@ ", (ROOT / "constraints.txt").read_text())


def test_the_models_of_our_own_stay_small() -> None:
    for directory, limit in (("mlxctl/demo/model", 8_000_000), ("tests/tiny_models/trained", 6_000_000)):
        assert sum(path.stat().st_size for path in (ROOT / directory).rglob("*") if path.is_file()) < limit


def test_the_front_loads_neither_mlx_nor_transformers() -> None:
    loaded = "print([name for name in ('mlx', 'mlx_lm', 'transformers') if name in sys.modules])"
    program = f"import mlxctl.bootstrap, mlxctl.server, sys; {loaded}"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"
