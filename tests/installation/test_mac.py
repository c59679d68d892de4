"""What of an installation on a Mac can be checked elsewhere."""

import plistlib
import re
from pathlib import Path

from mlxctl.cli.service.definition import ServiceDefinition
from tools.homebrew_formula import FORMULA, filled_in
from tools.mac_wheels import command, python_versions

from .environment import project

# Keys of launchd.plist(5) that an agent may have, with their types; launchd ignores others in silence.
LAUNCHD_KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "WorkingDirectory": str,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}


def formula_lines() -> list[str]:
    """Return the formula's lines without texts and comments."""
    text = FORMULA.read_text(encoding="utf-8")
    return [re.sub(r'"(?:[^"\\]|\\.)*"|#.*', "", line).strip() for line in text.splitlines()]


def test_each_block_of_the_formula_ends() -> None:
    opened = [line for line in formula_lines() if re.match(r"(class|def) |.* do$", line)]
    assert len(opened) == sum(line == "end" for line in formula_lines()) > 0
    for brackets in ("()", "[]", "{}"):
        assert len({sum(line.count(bracket) for line in formula_lines()) for bracket in brackets}) == 1


def test_formula_uses_one_supported_python() -> None:
    named = set(re.findall(r"python@?(3\.\d+)", FORMULA.read_text(encoding="utf-8")))
    assert len(named) == 1
    assert named <= set(python_versions(project()))


def test_formula_is_filled_in_for_a_release(tmp_path: Path) -> None:
    archive = tmp_path / "mlxctl-1.2.3.tar.gz"
    archive.write_bytes(b"source")
    formula = filled_in(FORMULA.read_text(encoding="utf-8"), archive)
    assert '/mlxctl-1.2.3.tar.gz"' in formula
    assert re.search(r'^  sha256 "[0-9a-f]{64}"$', formula, re.MULTILINE)


def test_wheels_are_resolved_for_each_supported_python_with_the_pins() -> None:
    assert python_versions(project()) == ["3.11", "3.12", "3.13", "3.14"]
    words = command("3.14", ["vision"])
    assert words[-3:] == ["--extra", "vision", "pyproject.toml"]
    assert words[words.index("-c") + 1] == "constraints.txt"


def test_launchd_knows_each_key_of_the_service() -> None:
    definition = ServiceDefinition(
        command=("python", "-m", "mlxctl", "serve"), directory=Path("/models"), log_file=Path("/log"),
        environment={"HF_HOME": "/data"},
    )  # fmt: skip
    keys = plistlib.loads(definition.launchd_plist())
    assert {key: type(value) for key, value in keys.items()} == LAUNCHD_KEYS
