"""The library: which models it finds, their names, and their removal."""

import json
import os
from pathlib import Path

import pytest
from huggingface_hub.utils._shared_blobs import (
    publish_blob_to_shared_store,
    shared_blob_path,
    try_link_from_shared_store,
)

from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk
from mlxctl.library import Library, read_model
from mlxctl.library.hub_cache import hub_cache_directory
from mlxctl.library.removal import remove_model
from mlxctl.state.settings import LibrarySettings
from tests.permissions import restricted_directory

from .weight_files import write_model

CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
WEIGHTS = {"a.weight": ("BF16", (8, 8))}
OLD, NEW = "a" * 40, "b" * 40


def cached(cache: Path, name: str, *, commit: str = NEW, ref: str | None = NEW) -> Path:
    """Create a snapshot as the hub's tools do.

    Links to blobs, and a ref.
    """
    folder = cache / f"models--{name.replace('/', '--')}"
    blobs = write_model(folder / "blobs", CONFIG, WEIGHTS)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(Path("..") / ".." / "blobs" / blob.name)
    if ref is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(ref)
    return snapshot


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    """A directory of models and a hub cache."""
    (tmp_path / "models").mkdir()
    (tmp_path / "hub").mkdir()
    return tmp_path / "models", tmp_path / "hub"


def library(directories: tuple[Path, Path], **aliases: str) -> Library:
    return Library(LibrarySettings(models_dirs=(directories[0],), hub_cache=directories[1], aliases=aliases))


def test_models_are_found_in_directories_and_hub_cache(directories: tuple[Path, Path]) -> None:
    write_model(directories[0] / "alone", CONFIG, WEIGHTS)
    write_model(directories[0] / "org" / "nested", CONFIG, WEIGHTS)
    snapshot = cached(directories[1], "org/cached")
    found = {entry.name: entry.path for entry in library(directories).entries()}
    assert found == {
        "alone": directories[0] / "alone",
        "org/nested": directories[0] / "org" / "nested",
        "org/cached": snapshot,
    }


def test_snapshot_of_main_is_used(directories: tuple[Path, Path]) -> None:
    cached(directories[1], "org/a", commit=OLD, ref=OLD)
    (directories[1] / "models--org--a" / "snapshots" / NEW).mkdir()
    assert library(directories).find("org/a").path.name == OLD


def test_newest_snapshot_is_used_without_a_ref(directories: tuple[Path, Path]) -> None:
    cached(directories[1], "org/a", ref=None)
    assert library(directories).find("org/a").path.name == NEW


@pytest.mark.parametrize("ref", ["../../../etc", "", "/etc", "g" * 40])
def test_ref_cannot_lead_out_of_its_repository(directories: tuple[Path, Path], ref: str) -> None:
    cached(directories[1], "org/a", ref=ref)
    assert library(directories).find("org/a").path.name == NEW


def test_ref_to_missing_snapshot_means_not_downloaded(
    directories: tuple[Path, Path],
) -> None:
    cached(directories[1], "org/a", ref=OLD)
    (entry,) = library(directories).entries()
    assert entry.problem == "model 'org/a' is not downloaded: the cache holds no snapshot of it"
    with pytest.raises(ModelNotFoundOnDisk, match="not downloaded"):
        library(directories).resolve("org/a")


def test_interrupted_download_is_named_with_the_way_to_continue(directories: tuple[Path, Path]) -> None:
    snapshot = cached(directories[1], "org/a")
    (snapshot / "tokenizer.json").write_text("{}")
    blobs = directories[1] / "models--org--a" / "blobs"
    blobs.mkdir(exist_ok=True)
    (blobs / "ab.12.incomplete").touch()
    assert library(directories).resolve("org/a").path == snapshot
    (snapshot / "model.safetensors.index.json").write_text(
        '{"weight_map": {"x": "model.safetensors", "y": "model-2.safetensors"}}'
    )
    with pytest.raises(
        ModelNotFoundOnDisk, match="not downloaded completely; `mlxctl models pull org/a` con"
    ):
        library(directories).resolve("org/a")


def test_data_sets_and_other_files_in_the_cache_are_ignored(directories: tuple[Path, Path]) -> None:
    for name in ("datasets--org--a", ".locks", "version.txt", "models--", "models--..--x"):
        (directories[1] / name).mkdir()
    assert library(directories).entries() == []


def test_broken_model_is_listed_with_its_problem(directories: tuple[Path, Path]) -> None:
    write_model(directories[0] / "good", CONFIG, WEIGHTS)
    (write_model(directories[0] / "bad", CONFIG, WEIGHTS) / "config.json").write_text("[")
    shelf = library(directories)
    problems = {entry.name: shelf.describe(entry).problem for entry in shelf.entries()}
    assert problems["good"] is None
    assert "not valid JSON" in (problems["bad"] or "")


@pytest.mark.parametrize("file", ["config.json", "1_Pooling/config.json"])
def test_link_out_of_a_model_is_not_followed(
    directories: tuple[Path, Path], tmp_path: Path, file: str
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"model_type": "secret"}')
    link = write_model(directories[0] / "sly", CONFIG, WEIGHTS) / file
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    shelf = library(directories)
    described = shelf.describe(shelf.find("sly"))
    assert f"{file!r} is a link that leads out of the library" in (described.problem or "")
    assert described.model_type is None


def test_model_directory_may_be_a_link(directories: tuple[Path, Path], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    for name, target in {
        "plain": write_model(disk / "models" / "a", CONFIG, WEIGHTS),
        "cached": cached(disk / "hub", "org/b"),
        "org": write_model(disk / "models" / "org" / "c", CONFIG, WEIGHTS).parent,
    }.items():
        (directories[0] / name).symlink_to(target)
    shelf = library(directories)
    assert {entry.name: shelf.describe(entry).problem for entry in shelf.entries()} == dict.fromkeys(
        ("cached", "org/c", "plain")
    )


def test_links_to_themselves_break_only_their_model(directories: tuple[Path, Path]) -> None:
    write_model(directories[0] / "good", CONFIG, WEIGHTS)
    looped = write_model(directories[0] / "looped", CONFIG, WEIGHTS) / "config.json"
    looped.unlink()
    looped.symlink_to("config.json")
    shelf = library(directories)
    problems = {entry.name: shelf.describe(entry).problem for entry in shelf.entries()}
    assert problems["good"] is None
    assert "config.json" in (problems["looped"] or "")


@pytest.mark.parametrize("locked", ["locked", "locked/config.json", "org/locked"])
def test_unreadable_model_breaks_no_other(locked: str) -> None:
    with restricted_directory() as directory:
        (directory / "hub").mkdir()
        write_model(directory / "good", CONFIG, WEIGHTS)
        write_model(directory / locked.removesuffix("/config.json"), CONFIG, WEIGHTS)
        (directory / locked).chmod(0)
        shelf = library((directory, directory / "hub"))
        problems = {entry.name: shelf.describe(entry).problem for entry in shelf.entries()}
    assert problems.pop("good") is None
    assert [("cannot be read" in (problem or "")) for problem in problems.values()] == [True]


def test_unreadable_directory_is_named(directories: tuple[Path, Path]) -> None:
    with restricted_directory() as directory:
        directory.chmod(0)
        with pytest.raises(BrokenModel, match="cannot be read"):
            read_model(library(directories).resolve(str(directory)).path)


def test_pipe_in_a_model_is_not_read(directories: tuple[Path, Path]) -> None:
    os.mkfifo(write_model(directories[0] / "piped", CONFIG, WEIGHTS) / "generation_config.json")
    assert "'generation_config.json' is not a regular file" in (
        library(directories).find("piped").problem or ""
    )


def test_linked_model_is_checked_for_outside_links(directories: tuple[Path, Path], tmp_path: Path) -> None:
    outside = write_model(tmp_path / "disk" / "a", CONFIG, WEIGHTS)
    (tmp_path / "disk" / "secret.json").write_text("{}")
    (outside / "tokenizer.json").unlink()
    (outside / "tokenizer.json").symlink_to(tmp_path / "disk" / "secret.json")
    (directories[0] / "linked").symlink_to(outside)
    assert "leads out of the library" in (library(directories).find("linked").problem or "")


def test_duplicate_name_is_a_problem_of_the_second(directories: tuple[Path, Path]) -> None:
    mine = write_model(directories[0] / "org" / "a", CONFIG, WEIGHTS)
    cached(directories[1], "org/a")
    first, second = library(directories).entries()
    assert (first.path, first.problem) == (mine, None)
    assert "hidden" in (second.problem or "")
    assert library(directories).find("org/a").path == mine


def test_unique_part_after_the_slash_names_a_model(directories: tuple[Path, Path]) -> None:
    snapshot = cached(directories[1], "org/a")
    assert library(directories).resolve("a").path == snapshot
    assert library(directories).resolve("a").name == "org/a"
    cached(directories[1], "other/a")
    with pytest.raises(ModelNotFoundOnDisk, match="'a' may be org/a or other/a"):
        library(directories).resolve("a")


def test_short_name_of_the_catalog_names_a_model_unless_the_library_has_another(
    directories: tuple[Path, Path],
) -> None:
    snapshot = cached(directories[1], "mlx-community/Qwen3-4B-4bit")
    found = library(directories).resolve("qwen3:4b")
    assert (found.name, found.path) == ("mlx-community/Qwen3-4B-4bit", snapshot)
    with pytest.raises(ModelNotFoundOnDisk):
        library(directories).resolve("other/qwen3:4b")
    mine = cached(directories[1], "org/qwen3-4b")
    assert library(directories).resolve("qwen3-4b").path == mine


def test_pasted_address_names_a_downloaded_model(directories: tuple[Path, Path]) -> None:
    snapshot = cached(directories[1], "org/a")
    shelf = library(directories, pasted="https://hf.co/org/a")
    folder = str(directories[1] / "models--org--a")
    for name in ("https://huggingface.co/org/a", "models--org--a", "org/a/", folder, "pasted"):
        assert shelf.resolve(name).path == snapshot
    assert shelf.resolve(folder).name == "org/a"


@pytest.fixture
def lm_studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """LM Studio's directory in an own home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home" / ".lmstudio"


def test_models_of_lm_studio_are_found_without_a_setting(
    directories: tuple[Path, Path], tmp_path: Path, lm_studio: Path
) -> None:
    write_model(lm_studio / "models" / "org" / "b", CONFIG, WEIGHTS)
    chosen = write_model(tmp_path / "chosen" / "org" / "a", CONFIG, WEIGHTS)
    (lm_studio / "settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "chosen")}))
    old = write_model(tmp_path / "home" / ".cache" / "lm-studio" / "models" / "org" / "c", CONFIG, WEIGHTS)
    moved = write_model(tmp_path / "moved" / "models" / "org" / "d", CONFIG, WEIGHTS)
    (lm_studio.parent / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'moved'}\n")
    found = {entry.name: (entry.origin, entry.path) for entry in library(directories).entries()}
    assert found == {
        "org/a": ("LM Studio", chosen),
        "org/b": ("LM Studio", lm_studio / "models" / "org" / "b"),
        "org/c": ("LM Studio", old),
        "org/d": ("LM Studio", moved),
    }
    assert library(directories).resolve("b").name == "org/b"


@pytest.mark.parametrize(
    "settings", ["{", "[]", '{"downloadsFolder": 5}', '{"downloadsFolder": "/x\\u0000"}']
)
def test_broken_settings_of_lm_studio_hide_no_model(
    directories: tuple[Path, Path], lm_studio: Path, settings: str
) -> None:
    write_model(lm_studio / "models" / "org" / "a", CONFIG, WEIGHTS)
    (lm_studio / "settings.json").write_text(settings)
    assert [entry.name for entry in library(directories).entries()] == ["org/a"]


def test_first_usable_library_has_a_name_that_several_have(
    directories: tuple[Path, Path], lm_studio: Path
) -> None:
    theirs = write_model(lm_studio / "models" / "org" / "a", CONFIG, WEIGHTS)
    snapshot = cached(directories[1], "org/a")
    assert library(directories).resolve("a").path == snapshot
    hidden = library(directories).entries()[1]
    assert (hidden.origin, hidden.path) == ("LM Studio", theirs)
    assert "is hidden by the one of this name in" in (hidden.problem or "")
    (directories[1] / "models--org--a" / "refs" / "main").write_text("0" * 40)
    assert library(directories).resolve("org/a").path == theirs


def test_directory_of_lm_studio_is_listed_once(directories: tuple[Path, Path], lm_studio: Path) -> None:
    write_model(lm_studio / "models" / "org" / "a", CONFIG, WEIGHTS)
    own = LibrarySettings(models_dirs=(lm_studio / "models",), hub_cache=directories[1])
    assert [entry.origin for entry in Library(own).entries()] == ["models directory"]
    linked = directories[0] / "org" / "a"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(lm_studio / "models" / "org" / "a")
    assert [entry.path for entry in library(directories).entries()] == [linked]


def test_gguf_files_are_listed_with_the_reason(directories: tuple[Path, Path], lm_studio: Path) -> None:
    folder = lm_studio / "models" / "org" / "a-GGUF"
    folder.mkdir(parents=True)
    (folder / "a-Q4_K_M.gguf").write_bytes(b"GGUF")
    (entry,) = library(directories).entries()
    assert "has no config.json; GGUF files are converted by" in (entry.problem or "")
    with pytest.raises(ModelNotFoundOnDisk, match="GGUF files are converted by"):
        library(directories).resolve("a-GGUF")


def test_alias_may_name_model_directory_or_alias(directories: tuple[Path, Path], tmp_path: Path) -> None:
    snapshot, outside = cached(directories[1], "org/a"), write_model(tmp_path / "elsewhere", CONFIG, WEIGHTS)
    shelf = library(directories, fast="org/a", faster="fast", mine=str(outside))
    assert (shelf.resolve("fast").name, shelf.resolve("fast").path) == ("fast", snapshot)
    assert shelf.resolve("faster").path == snapshot
    assert shelf.resolve("mine").path == outside


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("round", "refers to itself"),
        ("lost", "alias 'lost' stands for 'org/none', but there is no"),
        ("org/b", r"did you mean org/a\?"),
        ("tiny-lama", r"did you mean org/tiny-llama-4bit\?"),
        ("dmo", r"did you mean mlxctl-demo\?"),
        ("Qwen3-8B", "to download mlx-community/Qwen3-8B-4bit: mlxctl models pull Qwen3-8B"),
        ("Qwen3-9B", "short names near it: qwen3:4b, qwen3:4b-instruct, qwen3:8b, qwen3:14b"),
        ("mlx-community/Qwen3-8B-4bt", "mlxctl models pull mlx-community/Qwen3-8B-4bit"),
        ("https://hf.co/acme/Small-4bit", "to download it from the hub: mlxctl models pull acme/Small-4bit"),
        ("https://hf.co/acme/Small-4bit/tree/v2", "revisions other than main are not supported"),
        ("~nosuchuser/model", "no model directory at '~nosuchuser/model'"),
    ],
)
def test_unknown_name_is_an_error_with_hint(directories: tuple[Path, Path], name: str, message: str) -> None:
    cached(directories[1], "org/a")
    cached(directories[1], "org/tiny-llama-4bit")
    with pytest.raises(ModelNotFoundOnDisk, match=message):
        library(directories, round="about", about="round", lost="org/none").resolve(name)


def test_directory_without_a_model_does_not_hide_the_demo_model(
    directories: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert library(directories).resolve("demo").name == "mlxctl-demo"
    write_model(tmp_path / "demo", CONFIG, WEIGHTS)
    assert library(directories).resolve("demo").path == Path("demo")


def test_requested_name_is_never_a_path(directories: tuple[Path, Path]) -> None:
    write_model(directories[0] / "a", CONFIG, WEIGHTS)
    shelf = library(directories)
    assert shelf.resolve(str(directories[0] / "a")).name == "a"
    for name in (str(directories[0] / "a"), "../models/a", "/etc"):
        with pytest.raises(ModelNotFoundOnDisk):
            shelf.find_named(name)


def test_cached_model_is_named_by_its_repository(directories: tuple[Path, Path]) -> None:
    snapshot = cached(directories[1], "org/a")
    (snapshot / "tokenizer.json").unlink()
    with pytest.raises(BrokenModel, match=r"'org/a' has no tokenizer\.json"):
        read_model(snapshot)


def test_removing_a_repository_keeps_a_copy_under_another_name(
    directories: tuple[Path, Path],
) -> None:
    """A copy has the same commits."""
    cached(directories[1], "org/a")
    kept = cached(directories[1], "org/b")
    remove_model(library(directories).find("org/a"))
    assert not (directories[1] / "models--org--a").exists()
    assert (kept / "config.json").is_file()


def test_shared_weights_are_deleted_with_the_last_repository(directories: tuple[Path, Path]) -> None:
    """The hub's tools may store large files once for several repositories."""
    shared = {"xet_hash": "f" * 64, "cache_dir": directories[1]}
    for name, keep in (("org/a", publish_blob_to_shared_store), ("org/b", try_link_from_shared_store)):
        cached(directories[1], name)
        blob = directories[1] / f"models--{name.replace('/', '--')}" / "blobs" / "model.safetensors"
        assert keep(blob_path=str(blob), expected_size=blob.stat().st_size, **shared)
    store = shared_blob_path(directories[1], "f" * 64)
    assert library(directories).describe(library(directories).find("org/a")).weights is not None
    remove_model(library(directories).find("org/a"))
    assert store.is_file()
    remove_model(library(directories).find("org/b"))
    assert not store.exists()


def test_removing_a_directory_keeps_link_targets(directories: tuple[Path, Path]) -> None:
    model = write_model(directories[0] / "a", CONFIG, WEIGHTS)
    (directories[0] / "big").write_text("kept")
    (model / "link").symlink_to(directories[0] / "big")
    remove_model(library(directories).find("a"))
    assert not model.exists()
    assert (directories[0] / "big").read_text() == "kept"


def test_linked_directory_is_not_removed(directories: tuple[Path, Path]) -> None:
    real = write_model(directories[0] / "real", CONFIG, WEIGHTS)
    (directories[0] / "link").symlink_to(real)
    with pytest.raises(BrokenModel, match="is a link"):
        remove_model(library(directories).find("link"))
    assert (real / "config.json").is_file()


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({}, str(Path.home() / ".cache/huggingface/hub")),
    ],
)
def test_hub_cache_directory_follows_the_hubs_variables(environment: dict[str, str], home: str) -> None:
    assert hub_cache_directory(environment) == Path(home)


def test_file_in_place_of_a_directory_is_named(directories: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with pytest.raises(ModelNotFoundOnDisk, match=r"is a file; .* converted by `mlxctl models import"):
        library(directories).resolve(str(tmp_path / "model.gguf"))
