"""Container files name settings, files and metrics that exist."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging/docker"


def test_compose_file_mounts_files_of_the_repository() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    files = {name: entry["file"] for name, entry in compose["configs"].items()}
    assert files.keys() == {
        config["source"] for service in compose["services"].values() for config in service.get("configs", ())
    }
    assert all((FOLDER / path).is_file() for path in files.values())


def test_container_files_set_settings_that_exist() -> None:
    text = (FOLDER / "compose.yaml").read_text() + (FOLDER / "Dockerfile").read_text()
    used = set(re.findall(r"MLXCTL_SERVER_\w+", text))
    settings = (ROOT / "docs/reference/settings.md").read_text()
    assert used
    assert all(f"`{name}`" in settings for name in used)


def test_every_published_port_is_on_loopback() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    ports = [port for service in compose["services"].values() for port in service["ports"]]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
