"""What the doctor makes of machines, packages and places, also of those that the tests do not run on."""

import socket
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from mlxctl.doctor import examine
from mlxctl.doctor.backend import check_backend, judge_backend, judge_blas
from mlxctl.doctor.directories import check_models, check_port, judge_place
from mlxctl.doctor.memory import check_memory, judge_wired_limit
from mlxctl.doctor.packages import judge_packages
from mlxctl.doctor.platform import judge_files, judge_platform
from mlxctl.models import Library, Machine
from mlxctl.models.machine import GIB
from mlxctl.settings import LibrarySettings, ServerSettings, Settings


def test_this_machine_is_examined_and_works() -> None:
    findings = list(examine())
    names = [finding.name for finding in findings]
    assert len(set(names)) == len(names) >= 10
    assert {finding.name: finding.facts for finding in findings if finding.verdict == "broken"} == {}
    assert all(finding.remedy for finding in findings if finding.verdict == "advice")


@pytest.mark.parametrize(
    ("system", "machine", "macos", "is_translated", "verdict"),
    [
        ("darwin", "arm64", "15.1", False, "ok"),
        ("darwin", "arm64", "26.0", False, "ok"),
        ("darwin", "arm64", "13.6", False, "broken"),
        ("darwin", "x86_64", "15.1", False, "broken"),
        ("darwin", "x86_64", "15.1", True, "broken"),
        ("linux", "x86_64", "", False, "advice"),
        ("win32", "AMD64", "", False, "broken"),
    ],
)
def test_platforms(system: str, machine: str, macos: str, is_translated: bool, verdict: str) -> None:
    finding = judge_platform(system, machine, macos, is_translated=is_translated)
    assert finding.verdict == verdict
    assert (finding.remedy is None) == (verdict == "ok")


def look_in(installed: dict[str, tuple[str, list[str]]]) -> object:
    def look(name: str) -> tuple[str, list[str]]:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    return look


def packages(**changed: tuple[str, list[str]] | None) -> dict[str, tuple[str, list[str]]]:
    whole = {
        "mlxctl": (
            "0.1",
            [
                "mlx>=0.32,<0.33",
                "mlx-lm>=0.32",
                "pytest ; extra == 'test'",
                "winonly ; sys_platform == 'win32'",
            ],
        ),
        "mlx": ("0.32.4", []),
        "mlx-lm": ("0.32.2", ["mlx>=0.32.1", "broken requirement ((", "numpy"]),
        "numpy": ("2.0", ["mlx-lm"]),
    } | {name.replace("_", "-"): found for name, found in changed.items()}
    return {name: found for name, found in whole.items() if found is not None}


def test_packages_that_fit_are_counted_also_in_circles_and_without_extras() -> None:
    finding = judge_packages(look_in(packages()))  # type: ignore[arg-type]
    assert (finding.verdict, finding.facts) == ("ok", "5 requirements are met")


@pytest.mark.parametrize(
    ("changed", "words", "remedy"),
    [
        ({"mlx": ("0.31.0", [])}, "mlx 0.31.0 is installed, mlxctl needs <0.33,>=0.32", "'mlx<0.33,>=0.32'"),
        ({"numpy": None}, "numpy is missing, mlx-lm needs any version", "'numpy'"),
        (
            {"mlx_lm": ("0.32.2", ["mlx>=0.40"])},
            "mlx 0.32.4 is installed, mlx-lm needs >=0.40",
            "'mlx>=0.40'",
        ),
    ],
)
def test_packages_that_clash_are_named_with_the_command_that_mends_them(
    changed: dict[str, tuple[str, list[str]] | None], words: str, remedy: str
) -> None:
    finding = judge_packages(look_in(packages(**changed)))  # type: ignore[arg-type]
    assert finding.verdict == "broken"
    assert words in finding.facts
    assert finding.remedy is not None
    assert finding.remedy.startswith("`pip install ")
    assert remedy in finding.remedy


def test_a_checkout_that_was_never_installed_is_told_so() -> None:
    finding = judge_packages(look_in({}))  # type: ignore[arg-type]
    assert (finding.verdict, finding.remedy) == (
        "advice",
        "in its directory: `pip install -c constraints.txt -e .`",
    )


@pytest.mark.parametrize(
    ("exit_code", "output", "errors", "wants_metal", "verdict", "words"),
    [
        (0, '{"version": "1", "device": "gpu", "metal": true, "total": 36.0}', "", True, "ok", "with Metal"),
        (
            0,
            '{"version": "1", "device": "cpu", "metal": false, "total": 36.0}',
            "",
            True,
            "broken",
            "no Metal",
        ),
        (
            0,
            '{"version": "1", "device": "gpu", "metal": true, "total": 35.0}',
            "",
            True,
            "broken",
            "computes 35 where 36 is right",
        ),
        (1, "", "Traceback\nImportError: libmlx.dylib", True, "broken", "ImportError: libmlx.dylib"),
        (-6, "", "", True, "broken", "ended with -6"),
    ],
)
def test_trials_of_mlx(
    exit_code: int, output: str, errors: str, wants_metal: bool, verdict: str, words: str
) -> None:
    finding = judge_backend(exit_code, output, errors, wants_metal=wants_metal)
    assert finding.verdict == verdict
    assert words in finding.facts


def test_mlx_computes_here() -> None:
    assert check_backend(wants_metal=False).verdict == "ok"


def test_blas_is_advice() -> None:
    assert judge_blas(None).verdict == "advice"
    assert judge_blas("libopenblas.so.0").verdict == "ok"


@pytest.mark.parametrize(
    ("memory_gib", "limit_mib", "verdict", "words"),
    [
        (64, 0, "ok", "sysctl iogpu.wired_limit_mb=55705"),
        (8, 0, "ok", "sysctl iogpu.wired_limit_mb=2048"),
        (4, 0, "ok", "chosen by macOS"),
        (64, 50_000, "ok", "set by hand to 48.8 GiB of 64"),
        (64, 63_000, "advice", "set by hand to 61.5 GiB of 64"),
        (64, None, "ok", "no iogpu.wired_limit_mb"),
    ],
)
def test_wired_limits(memory_gib: int, limit_mib: int | None, verdict: str, words: str) -> None:
    finding = judge_wired_limit(memory_gib * GIB, limit_mib)
    assert finding.verdict == verdict
    assert words in finding.facts


def test_a_memory_limit_beyond_the_memory_is_broken() -> None:
    machine = Machine(
        chip=None,
        memory_bytes=8 * GIB,
        usable_bytes=6 * GIB,
        is_exact=True,
        has_metal=False,
        bandwidth_bytes_per_second=None,
    )
    assert check_memory(machine, limit_bytes=9 * GIB).verdict == "broken"
    assert check_memory(machine, limit_bytes=7 * GIB).verdict == "ok"


def test_few_open_files_are_advice() -> None:
    assert [judge_files(limit).verdict for limit in (256, 1024, -1)] == ["advice", "ok", "ok"]


def test_a_place_without_room_is_advice_and_one_that_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert judge_place("state", tmp_path / "new" / "er", least_bytes=0).verdict == "ok"
    assert judge_place("models", tmp_path, least_bytes=1e30).verdict == "advice"
    assert judge_place("state", tmp_path / "file" / "inside", least_bytes=0).verdict == "broken"


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "models--org--half").mkdir()
    finding = check_models(Library(LibrarySettings(hub_cache=tmp_path)))
    assert "1 in the library" in finding.facts
    assert finding.verdict == "advice"
    assert finding.remedy is not None


def test_a_port_that_is_taken_is_advice() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        taken = check_port(Settings(server=ServerSettings(port=port)))
    assert (taken.verdict, f"port {port}" in taken.facts) == ("advice", True)
    assert check_port(Settings(server=ServerSettings(port=0))).verdict == "ok"
