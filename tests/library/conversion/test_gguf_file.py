"""Reading headers of GGUF files that are damaged, or that lie."""

import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.ir.errors import ConversionFailed
from mlxctl.library.conversion.gguf_file import read_gguf
from mlxctl.library.conversion.gguf_import import import_gguf
from tests import tiny_models
from tests.library.conversion.gguf_files import write_gguf

F32, Q4_0, STRING, ARRAY, U32 = 0, 2, 8, 9, 4


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int = F32, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def header(
    *parts: bytes, tensors: int = 0, entries: int = 0, version: int = 3, magic: bytes = b"GGUF"
) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, entries) + b"".join(parts)


DATA = bytes(64)
GOOD = header(entry("a.b", U32, struct.pack("<I", 7)), tensor("t", (4,)), tensors=1, entries=1)
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a GGUF file"),
    "other file": (b"PK\x03\x04" + DATA, "is not a GGUF file"),
    "version 1": (header(version=1), "is GGUF version 1; supported are 2 and 3"),
    "version 9": (header(version=9), "is GGUF version 9"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is a big-endian GGUF file"),
    "only a magic": (b"GGUF", "is truncated"),
    "billion tensors": (header(tensors=10**9), "declares 1,000,000,000 tensors"),
    "billion entries": (header(entries=10**9), "declares 1,000,000,000 metadata entries"),
    "many tensors": (header(tensors=60_000), "is truncated"),
    "huge key": (
        header(struct.pack("<Q", 1 << 62), entries=1),
        "has a text of 4,611,686,018,427,387,904 bytes",
    ),
    "huge text": (header(entry("a", STRING, struct.pack("<Q", 1 << 40)), entries=1), "has a text of"),
    "long text": (header(entry("a", STRING, struct.pack("<Q", 1 << 20)), entries=1), "is truncated"),
    "huge list": (header(entry("a", ARRAY, struct.pack("<IQ", U32, 1 << 60)), entries=1), "values of 'a'"),
    "long list": (header(entry("a", ARRAY, struct.pack("<IQ", U32, 1 << 20)), entries=1), "is truncated"),
    "nested list": (
        header(entry("a", ARRAY, struct.pack("<IQ", ARRAY, 1)), entries=1),
        "nested lists in 'a'",
    ),
    "unknown kind": (header(entry("a", 77, b""), entries=1), "unknown type 77 in 'a'"),
    "no UTF-8": (header(entry("a", STRING, text(b"\xff")), entries=1), "is not UTF-8"),
    "same key": (header(*[entry("a", U32, DATA[:4])] * 2, entries=2), "has the metadata 'a' twice"),
    "alignment": (
        header(entry("general.alignment", U32, struct.pack("<I", 3)), entries=1),
        "alignment 3, which is no power of two",
    ),
    "same tensor": (header(*[tensor("t", (4,))] * 2, tensors=2) + DATA, "has the tensor 't' twice"),
    "no dimension": (header(tensor("t", ()), tensors=1), "'t' with 0 dimensions"),
    "five dimensions": (header(tensor("t", (1,) * 5), tensors=1), "'t' with 5 dimensions"),
    "size zero": (header(tensor("t", (4, 0)), tensors=1) + DATA, "more than the file holds"),
    "huge size": (header(tensor("t", (1 << 40, 1 << 40)), tensors=1) + DATA, "more than the file holds"),
    "odd row": (header(tensor("t", (33,), Q4_0), tensors=1) + DATA, "rows of 33, no multiple of 32"),
    "unknown type": (header(tensor("t", (4,), 99), tensors=1) + DATA, "of the type number 99"),
    "IQ1_S": (header(tensor("t", (256,), 19), tensors=1) + DATA, "of the type IQ1_S, which is not supported"),
    "odd offset": (header(tensor("t", (4,), offset=3), tensors=1) + DATA, "is not aligned"),
    "far offset": (header(tensor("t", (4,), offset=1 << 40), tensors=1) + DATA, "is truncated"),
    "shared place": (header(tensor("t", (16,)), tensor("u", (4,)), tensors=2) + DATA * 9, "place of another"),
    "data cut off": (GOOD + bytes(8), "is truncated: it has"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file_gets_one_clear_line(case: str, tmp_path: Path) -> None:
    data, message = WRONG[case]
    file = tmp_path / "a.gguf"
    file.write_bytes(data)
    with pytest.raises(ConversionFailed) as caught:
        read_gguf(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(GOOD + bytes(-len(GOOD) % 32) + DATA)
    found = read_gguf(tmp_path / "a.gguf")
    assert found.metadata == {"a.b": 7}
    assert (found.tensors["t"].shape, found.tensors["t"].num_bytes) == ((4,), 16)


def test_pipe_and_directory_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConversionFailed, match=r"no regular file|cannot be read"):
            read_gguf(path)


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"general.architecture": "mamba"}, "the architecture 'mamba' is not supported"),
    "projector": ({"general.architecture": "clip"}, "is a projector of images or sound"),
    "adapter": ({"general.type": "adapter"}, "has the general.type 'adapter'"),
    "part": (
        {"split.count": 3, "split.no": 1},
        "is part 2 of 3; name the first one, 'a-00001-of-00003.gguf'",
    ),
    "first part": ({"split.count": 3}, "must be named 'a-00001-of-00003.gguf'"),
    "many parts": ({"split.count": 101}, "one of 101 parts; at most 100 are read"),
    "experts": ({"qwen3.expert_count": 8}, "models with experts are not supported"),
    "embeddings": ({"qwen3.pooling_type": 3}, "is an embedding model"),
    "layers": ({"qwen3.block_count": 5}, "the tensor 'blk.4.attn_q.weight' is missing"),
    "fewer layers": ({"qwen3.block_count": 3}, "the tensor 'blk.3.attn_"),
    "width": ({"qwen3.embedding_length": 128}, "has the shape [512, 64], and must have [512, 128]"),
    "text for a number": ({"qwen3.block_count": "many"}, "qwen3.block_count must be a whole number"),
    "no number": ({"qwen3.block_count": None}, "its metadata has no qwen3.block_count"),
    "many layers": ({"qwen3.block_count": 10**9}, "must be from 1 to 1000"),
    "not finite": ({"qwen3.rope.freq_base": float("nan")}, "qwen3.rope.freq_base is nan"),
    "scaling": ({"qwen3.rope.scaling.type": "longrope"}, "with 'longrope' scaling are not supported"),
    "part of a head": ({"qwen3.rope.dimension_count": 8}, "of a part of each head"),
    "tokenizer": ({"tokenizer.ggml.model": "t5"}, "the tokenizer 't5' is not supported"),
    "pre-tokenizer": ({"tokenizer.ggml.pre": "jais"}, "the pre-tokenizer 'jais' (tokenizer.ggml.pre)"),
    "no pre-tokenizer": ({"tokenizer.ggml.pre": None}, "the pre-tokenizer 'missing'"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "has no tokenizer.ggml.tokens"),
    "numbers as tokens": ({"tokenizer.ggml.tokens": [1, 2]}, "must be a list of str values"),
    "same tokens": ({"tokenizer.ggml.tokens": ["a", "a"]}, "has a token twice"),
    "few types": ({"tokenizer.ggml.token_type": [1]}, "has 1 values, and must have 512"),
    "no pair": ({"tokenizer.ggml.merges": ["ab"]}, "which is no pair"),
    "unknown merge": ({"tokenizer.ggml.merges": ["xxx yyy"]}, "its tokenizer cannot be built"),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_unsupported_model_is_refused_by_name(case: str, tmp_path: Path) -> None:
    metadata, message = UNSUPPORTED[case]
    file = write_gguf(tiny_models.model("qwen3"), tmp_path / "a.gguf", metadata=metadata)
    with pytest.raises(ConversionFailed) as caught:
        import_gguf(file, tmp_path / "new", origin="a", progress=lambda *_: None)
    assert message in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_damaged_bytes_of_a_header_never_raise_another_error(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path_factory.mktemp("fuzz")
    monkeypatch.setenv("XDG_DATA_HOME", str(directory / "data"))
    whole = write_gguf(tiny_models.model("qwen3"), directory / "good.gguf", matrices="Q8_0").read_bytes()
    places = st.integers(0, len(whole) - 9)
    numbers = st.sampled_from([0, 1, 2, 3, 8, 9, 255, 1 << 16, (1 << 32) - 1, 1 << 40, (1 << 64) - 1])
    change = st.tuples(places | st.integers(0, 4000), numbers, st.sampled_from("BIQ"))

    @settings(max_examples=60)
    @given(st.lists(change, max_size=3), st.none() | places)
    def check(changes: list[tuple[int, int, str]], end: int | None) -> None:
        data = bytearray(whole)
        for place, number, form in changes:
            size = struct.calcsize(form)
            struct.pack_into(f"<{form}", data, place, number & ((1 << 8 * size) - 1))
        file = directory / "bad.gguf"
        file.write_bytes(data[:end])
        target = directory / "data" / "mlxctl" / "models" / "new"
        shutil.rmtree(target, ignore_errors=True)
        with suppress(ConversionFailed):
            import_gguf(file, target, origin="a", progress=lambda *_: None)
        assert [path.name for path in target.parent.glob("*")] in ([], ["new"])

    check()
