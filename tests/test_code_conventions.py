"""Rules of the code base: import contracts, names, committed files."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

from mlxctl.ir import errors

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {
    "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "constraints.txt", "docs",
    "mkdocs.yml", "pyproject.toml", "mlxctl", "packaging", "tests", "tools", "snapshots", "bench_results",
}  # fmt: skip


def committed() -> list[Path]:
    """Return files that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_import_contracts_hold() -> None:
    # In a child process: it configures logging, which other tests capture.
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_import_graph_has_no_cycles() -> None:
    graph = grimp.build_graph("mlxctl", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(list(TopologicalSorter(imports).static_order())) == len(imports)


def test_top_level_has_only_listed_names() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in committed()}
    unlisted = {name for name in names if not name.startswith(".")} - TOP_LEVEL
    assert unlisted == set(), "move these into a folder, or add them to TOP_LEVEL in this file"


def test_no_package_is_named_utils() -> None:
    vague_names = {"utils", "util", "helpers", "helper", "common", "misc"}
    found = [path for path in committed() if vague_names & set(path.relative_to(ROOT).with_suffix("").parts)]
    assert found == [], "name these after what they hold"


def test_every_module_has_a_docstring() -> None:
    modules = [
        path for path in committed() if path.suffix == ".py" and "mlxctl" in path.relative_to(ROOT).parts[:1]
    ]
    undocumented = [path for path in modules if not path.read_text().lstrip().startswith(('"""', 'r"""'))]
    assert undocumented == [], "begin these modules with a docstring"


def test_error_tree_names_every_error() -> None:
    classes = {name for name in errors.__all__ if name[0].isupper()}
    named = set(re.findall(r"^[│ ]*[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE))
    assert named | {"MlxctlError"} == classes


def test_first_docstring_lines_have_at_most_twelve_words() -> None:
    long = []
    for path in (path for path in committed() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first, *others = (ast.get_docstring(node) or "").split("\n")
                if len(first.split()) > 12 or (others and others[0]):
                    long.append(f"{path.relative_to(ROOT)}: {first}")
    assert long == [], "first docstring lines have at most 12 words, and an empty line follows"


# What prints, and the modules that may use it: they escape what a terminal would obey.
PRINTERS = {
    "print": {"terminal_text.py", "chat/plain_terminal.py", "chat/question_reader.py"},
    "Console": {"cli/console.py"},
    "click.secho": set(),
    "click.echo": set(),
    "click.prompt": set(),
    "click.confirm": {"cli/models/downloads.py", "cli/models/library.py"},
    "sys.stdout.write": set(),
    "sys.stderr.write": set(),
    "sys.stdout.buffer.write": set(),
}


_PRINTING = re.compile(r"\bprint\(|Console\(|TextColumn\(|click\.\w+\(|\bsys\.std\w+\.")


def test_the_request_of_a_task_is_read_for_log_lines_only() -> None:
    package = ROOT / "mlxctl"
    users = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "logged_request" in path.read_text()
    }
    assert users == {
        "server/observe/http_record.py",
        "server/observe/log_output.py",
        "server/middleware/request_recording.py",
    }, "callers and their rights are arguments (CallContext)"


def test_commands_print_only_what_is_escaped() -> None:
    found = []
    for path in sorted((ROOT / "mlxctl").rglob("*.py")):
        name, text = str(path.relative_to(ROOT / "mlxctl")), path.read_text()
        # Parsing all files would take some seconds.
        nodes = ast.walk(ast.parse(text)) if _PRINTING.search(text) else ()
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            printer = ast.unparse(call.func)
            if name not in PRINTERS.get(printer, {name}):
                found.append(f"{name}:{call.lineno}: {printer}")
            is_markup = printer == "TextColumn" and "markup=False" not in ast.unparse(call)
            found += [f"{name}:{call.lineno}: TextColumn without markup=False"] * is_markup
    assert found == [], "print with mlxctl.terminal_text.echo, or on a console of mlxctl.cli.console"


def test_no_registry_and_no_foreign_weights_are_committed() -> None:
    ours = [ROOT / "mlxctl" / "library" / "demo" / "model", ROOT / "tests" / "tiny_models" / "trained"]
    weights = [
        path for path in committed() if path.suffix in {".safetensors", ".gguf", ".npz", ".bin", ".pt"}
    ]
    assert [path for path in weights if not any(directory in path.parents for directory in ours)] == []
    assert not re.search(r"https?://|--index|@ ", (ROOT / "constraints.txt").read_text())


def test_committed_models_stay_small() -> None:
    for directory, limit in (
        ("mlxctl/library/demo/model", 8_000_000),
        ("tests/tiny_models/trained", 7_000_000),
    ):
        assert sum(path.stat().st_size for path in (ROOT / directory).rglob("*") if path.is_file()) < limit


def test_server_process_imports_neither_mlx_nor_transformers() -> None:
    loaded = "print([name for name in ('mlx', 'mlx_lm', 'transformers') if name in sys.modules])"
    program = f"import mlxctl.server.wiring, mlxctl.server, sys; {loaded}"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"
