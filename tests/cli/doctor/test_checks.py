"""Check results for this and other machines."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from mlxctl.cli.doctor import CheckResult, run_checks
from mlxctl.cli.doctor.backend import assess_backend, assess_blas
from mlxctl.cli.doctor.directories import assess_directory, check_access, check_models, check_port
from mlxctl.cli.doctor.install_commands import install_command, reinstall_command
from mlxctl.cli.doctor.memory import assess_wired_limit, check_memory
from mlxctl.cli.doctor.packages import assess_packages
from mlxctl.cli.doctor.platform import assess_file_limit, assess_platform
from mlxctl.library import Library, Machine
from mlxctl.library.machine import GIB
from mlxctl.state.settings import LibrarySettings, PolicySettings, ServerSettings, Settings
from tests.permissions import restricted_directory


def test_checks_of_this_machine_pass() -> None:
    results = list(run_checks())
    names = [result.name for result in results]
    assert len(set(names)) == len(names) >= 10
    assert {result.name: result.facts for result in results if result.verdict == "broken"} == {}
    assert all(result.remedy for result in results if result.verdict == "advice")
    assert [result.verdict for result in results if result.name == "mlx"] == ["ok"]


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
def test_platform_verdicts(system: str, machine: str, macos: str, is_translated: bool, verdict: str) -> None:
    result = assess_platform(system, machine, macos, is_translated=is_translated)
    assert result.verdict == verdict
    assert (result.remedy is None) == (verdict == "ok")


def lookup_in(installed: dict[str, tuple[str, list[str]]]) -> object:
    def lookup(name: str) -> tuple[str, list[str]]:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    return lookup


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


def test_satisfied_requirements_are_counted_despite_cycles() -> None:
    result = assess_packages(lookup_in(packages()))  # type: ignore[arg-type]
    assert (result.verdict, result.facts) == ("ok", "5 requirements are met")


@pytest.mark.parametrize(
    ("changed", "text", "remedy"),
    [
        ({"mlx": ("0.31.0", [])}, "mlx 0.31.0 is installed, mlxctl needs <0.33,>=0.32", "'mlx<0.33,>=0.32'"),
        ({"numpy": None}, "numpy is missing, mlx-lm needs any version", " numpy`"),
        (
            {"mlx_lm": ("0.32.2", ["mlx>=0.40"])},
            "mlx 0.32.4 is installed, mlx-lm needs >=0.40",
            "'mlx>=0.40'",
        ),
    ],
)
def test_unmet_requirements_are_named_with_a_pip_command(
    changed: dict[str, tuple[str, list[str]] | None], text: str, remedy: str
) -> None:
    result = assess_packages(lookup_in(packages(**changed)))  # type: ignore[arg-type]
    assert result.verdict == "broken"
    assert text in result.facts
    assert result.remedy is not None
    assert result.remedy.startswith(install_command().rstrip("`"))
    assert remedy in result.remedy


def test_uninstalled_checkout_gets_install_advice() -> None:
    result = assess_packages(lookup_in({}))  # type: ignore[arg-type]
    root = Path(__file__).parents[3]
    assert (result.verdict, result.remedy) == (
        "advice",
        install_command("-c", str(root / "constraints.txt"), "-e", str(root)),
    )


def test_install_commands_name_the_python_of_this_environment() -> None:
    assert install_command("mlx<1", has_pip=True) == f"`{sys.executable} -m pip install 'mlx<1'`"
    assert install_command("mlx", has_pip=False) == f"`uv pip install --python {sys.executable} mlx`"


def test_reinstall_command_installs_from_the_checkout() -> None:
    assert reinstall_command().endswith(f"{Path(__file__).parents[3]}`")


@pytest.mark.parametrize(
    ("exit_code", "output", "errors", "wants_metal", "verdict", "text"),
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
def test_mlx_trial_verdicts(
    exit_code: int, output: str, errors: str, wants_metal: bool, verdict: str, text: str
) -> None:
    result = assess_backend(exit_code, output, errors, wants_metal=wants_metal)
    assert result.verdict == verdict
    assert text in result.facts


def test_missing_openblas_is_advice() -> None:
    assert assess_blas(None).verdict == "advice"
    assert assess_blas("libopenblas.so.0").verdict == "ok"


@pytest.mark.parametrize(
    ("memory_gib", "limit_mib", "verdict", "text"),
    [
        (64, 0, "ok", "sysctl iogpu.wired_limit_mb=55705"),
        (8, 0, "ok", "sysctl iogpu.wired_limit_mb=2048"),
        (4, 0, "ok", "chosen by macOS"),
        (64, 50_000, "ok", "set by hand to 52.43 GB, on a machine of 64 GB"),
        (64, 63_000, "advice", "set by hand to 66.06 GB, on a machine of 64 GB"),
        (64, None, "ok", "no iogpu.wired_limit_mb"),
    ],
)
def test_wired_limit_verdicts(memory_gib: int, limit_mib: int | None, verdict: str, text: str) -> None:
    result = assess_wired_limit(memory_gib * GIB, limit_mib)
    assert result.verdict == verdict
    assert text in result.facts


def test_memory_limit_above_physical_memory_is_broken() -> None:
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


def test_low_open_file_limit_is_advice() -> None:
    assert [assess_file_limit(limit).verdict for limit in (256, 1024, -1)] == ["advice", "ok", "ok"]


def assess(directory: Path, *, least_bytes: float = 0) -> CheckResult:
    return assess_directory("state", directory, least_bytes=least_bytes, variable="XDG_STATE_HOME")


def test_full_disk_is_advice_that_names_another_directory(tmp_path: Path) -> None:
    assert assess(tmp_path / "new" / "er").verdict == "ok"
    full = assess(tmp_path, least_bytes=1e30)
    assert full.verdict == "advice"
    assert full.remedy is not None
    assert "`export XDG_STATE_HOME=DIRECTORY`" in full.remedy


def test_file_in_place_of_a_directory_is_moved_by_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    result = assess(tmp_path / "a file" / "inside")
    assert result.verdict == "broken"
    assert result.remedy is not None
    subprocess.run(result.remedy.split("`")[1], shell=True, check=True)
    assert assess(tmp_path / "a file" / "inside").verdict == "ok"


def test_unwritable_directory_is_made_writable_by_the_remedy() -> None:
    with restricted_directory() as directory:
        directory.chmod(0o500)
        result = assess(directory / "state")
        assert result.verdict == "broken"
        assert result.remedy is not None
        subprocess.run(result.remedy.strip("`"), shell=True, check=True)
        assert assess(directory / "state").verdict == "ok"


def test_broken_model_is_advice(tmp_path: Path) -> None:
    (tmp_path / "models--org--half").mkdir()
    result = check_models(Library(LibrarySettings(hub_cache=tmp_path)))
    assert "1 in the library" in result.facts
    assert result.verdict == "advice"
    assert result.remedy is not None


def test_used_port_is_advice() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        taken = check_port(Settings(server=ServerSettings(port=port)))
    assert (taken.verdict, f"port {port}" in taken.facts) == ("advice", True)
    assert check_port(Settings(server=ServerSettings(port=0))).verdict == "ok"


class _Greeting(BaseHTTPRequestHandler):
    """Greets as `mlxctl serve` does."""

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        body = b'{"name": "mlxctl", "version": "1.2.3"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize(
    ("server", "verdict"),
    [
        (ServerSettings(host="0.0.0.0"), "advice"),
        (ServerSettings(host="0.0.0.0", api_keys=("sk",)), "ok"),
        (ServerSettings(), "ok"),
    ],
)
def test_access_of_every_machine_without_a_key_is_advice(
    tmp_path: Path, server: ServerSettings, verdict: str
) -> None:
    settings = Settings(server=server, policy=PolicySettings(path=tmp_path / "policy.sqlite"))
    assert check_access(settings).verdict == verdict


def test_port_of_a_running_mlxctl_is_fine() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = check_port(Settings(server=ServerSettings(port=server.server_port)))
        server.shutdown()
    assert result.verdict == "ok"
    assert result.facts == f"mlxctl 1.2.3 serves on http://127.0.0.1:{server.server_port}"
