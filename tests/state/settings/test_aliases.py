"""Library settings, and editing of aliases in a settings file."""

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.errors import SettingsError
from mlxctl.state.settings import remove_alias, resolve, write_alias
from tests.permissions import restricted_directory

WRITTEN = """\
# my settings
[server]
port = 9000   # not 8080

[library]
models_dirs = ["~/models"]

[library.aliases]
fast = "org/small"  # for the commute
'two words' = "org/other"

[engine]
max_rows = 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mlxctl.toml"
    path.write_text(WRITTEN)
    return path


def test_library_settings_come_from_file_and_environment(file: Path) -> None:
    library = resolve(config_file=file, environment={}).library
    assert library.models_dirs == (Path.home() / "models",)
    assert library.aliases == {"fast": "org/small", "two words": "org/other"}
    library = resolve(
        environment={"MLXCTL_LIBRARY_ALIASES": "a=org/x, b=/y", "MLXCTL_LIBRARY_MODELS_DIRS": "/m,/n"}
    ).library
    assert library.aliases == {"a": "org/x", "b": "/y"}
    assert library.models_dirs == (Path("/m"), Path("/n"))


@pytest.mark.parametrize("aliases", ['"x"', "{a = 1}", '{a = ""}', "[1]"])
def test_aliases_must_be_a_table_of_strings(file: Path, aliases: str) -> None:
    file.write_text(f"[library]\naliases = {aliases}\n")
    with pytest.raises(SettingsError, match=r"'library\.aliases'.*expected a table of names"):
        resolve(config_file=file, environment={})


def test_new_alias_leaves_the_rest_of_the_file_unchanged(file: Path) -> None:
    write_alias(file, "big", "org/huge")
    assert file.read_text() == WRITTEN.replace('"org/other"\n', '"org/other"\n"big" = "org/huge"\n')


def test_existing_alias_is_replaced(file: Path) -> None:
    write_alias(file, "fast", "org/new")
    assert tomllib.loads(file.read_text())["library"]["aliases"] == {
        "fast": "org/new",
        "two words": "org/other",
    }
    assert "# my settings" in file.read_text()


def test_alias_is_removed(file: Path) -> None:
    remove_alias(file, "two words")
    assert file.read_text() == WRITTEN.replace("'two words' = \"org/other\"\n", "")
    with pytest.raises(SettingsError, match="no alias 'two words'"):
        remove_alias(file, "two words")


def test_new_settings_file_is_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "mlxctl.toml"
    write_alias(file, "a", "org/x")
    assert resolve(config_file=file, environment={}).library.aliases == {"a": "org/x"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_symbolic_link_to_the_settings_file_is_kept(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    write_alias(link, "big", "org/huge")
    assert link.is_symlink()
    assert "org/huge" in file.read_text()


@pytest.mark.parametrize(
    "text", ['[library]\naliases = {fast = "a"}\n', '[library.aliases]\nfast = """\na"""\n']
)
def test_alias_that_cannot_be_edited_is_left_unchanged(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match="cannot edit"):
        write_alias(file, "fast", "b")
    assert file.read_text() == text


def test_invalid_settings_file_is_not_edited(file: Path) -> None:
    file.write_text("[library\n")
    with pytest.raises(SettingsError, match="cannot be read"):
        write_alias(file, "fast", "b")


@given(name=st.text(min_size=1), target=st.text(min_size=1))
def test_any_alias_round_trips_or_is_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: str, target: str
) -> None:
    file = tmp_path_factory.mktemp("aliases") / "mlxctl.toml"
    file.write_text(WRITTEN)
    try:
        write_alias(file, name, target)
    except SettingsError:
        assert file.read_text() == WRITTEN
    else:
        assert tomllib.loads(file.read_text())["library"]["aliases"][name] == target


def test_a_settings_file_that_cannot_be_written_is_an_error_without_its_number() -> None:
    with restricted_directory() as directory:
        directory.chmod(0o500)
        with pytest.raises(SettingsError, match=r"mlxctl.toml' cannot be written: Permission denied$"):
            write_alias(directory / "mlxctl.toml", "fast", "demo")
