"""The start-up lines of `mlxctl serve`."""

import json
import shlex
from dataclasses import replace

import pytest

from mlxctl.cli.banner import Banner
from mlxctl.inference import ServedModel
from mlxctl.inference.models.served_model import ModelMemory
from mlxctl.library import DEMO_MODEL, Machine, describe_model, fit_model, read_model
from mlxctl.server import Address
from mlxctl.state.settings import PoolSettings, ServerSettings, Settings
from mlxctl.state.stores import MeasuredSpeed
from tests import tiny_models

SPEED = MeasuredSpeed(
    fingerprint="f",
    version="1",
    machine="X",
    model="real",
    decode_tokens_per_second=61.2,
    prompt_tokens_per_second=None,
    context_tokens=512,
    measured_at=0.0,
)


def test_alias_is_shown_as_another_name_of_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    model = ServedModel(name="real", facts=read_model(DEMO_MODEL.path), state="loaded")
    Banner().ready(Address(ip="127.0.0.1", port=8080), (model, replace(model, name="quick")), {}, seconds=1.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "  model  real, context 8,192 tokens",
        "  alias  quick, another name of real",
    ]


def test_example_request_names_a_model_that_generates_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = ServedModel(name="chat", facts=read_model(DEMO_MODEL.path), state="loaded")
    embedding = ServedModel(name="vectors", facts=read_model(tiny_models.model("embedder")), state="loaded")
    Banner().ready(Address(ip="127.0.0.1", port=8080), (embedding, text), {}, seconds=1.0)
    assert '"model": "chat"' in capsys.readouterr().out
    Banner().ready(Address(ip="127.0.0.1", port=8080), (embedding,), {}, seconds=1.0)
    assert "  try " not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["it's", "a b"])
def test_example_request_is_one_that_a_shell_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = ServedModel(name=name, facts=read_model(DEMO_MODEL.path), state="loaded")
    Banner().ready(Address(ip="::1", port=8080), (model,), {}, seconds=1.0)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  try "))
    assert "'http://[::1]:8080/v1/chat/completions'" in line
    assert json.loads(shlex.split(line)[-1])["model"] == name


@pytest.mark.parametrize(
    ("preloads", "when"),
    [(False, "at its first request"), (True, "next, if it fits beside the others (--preload)")],
)
def test_a_model_that_is_not_loaded_says_when_it_will_be(
    preloads: bool, when: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ServedModel(name="later", facts=read_model(tiny_models.model("qwen3")), state="not_loaded")
    banner, address = Banner(), Address(ip="127.0.0.1", port=8080)
    banner.listening(address, Settings(pool=PoolSettings(preload=preloads)), requires_keys=False)
    banner.ready(address, (model,), {}, seconds=1.0)
    assert f"tokens, loaded {when}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("server", "requires_keys", "access"),
    [
        (ServerSettings(), False, "programs of this machine may use and change everything without a key"),
        (ServerSettings(host="0.0.0.0"), True, "every machine that reaches 0.0.0.0 with an API key"),
        (
            ServerSettings(host="0.0.0.0", cors_origins=("*",)),
            False,
            (
                "every machine that reaches 0.0.0.0 may use and change everything without a key; web pages "
                "may generate and list models; set an API key with --api-key"
            ),
        ),
    ],
)
def test_access_is_one_line(
    server: ServerSettings, requires_keys: bool, access: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = Address(ip="127.0.0.1", port=8080)
    Banner().listening(address, Settings(server=server), requires_keys=requires_keys)
    assert f"  access {access}\n" in capsys.readouterr().out


def test_loaded_model_is_shown_with_memory_longest_conversation_and_speed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    memory = ModelMemory(
        name="real",
        weights_bytes=5_200_000,
        kv_bytes_per_token=2048,
        kv_bits=None,
        num_requests=0,
        idle_seconds=0.0,
        is_pinned=False,
        max_safe_context=3000,
    )
    model = ServedModel(name="real", facts=read_model(DEMO_MODEL.path), state="loaded", memory=memory)
    machine = Machine(
        chip="X",
        memory_bytes=16 << 30,
        usable_bytes=12_000_000_000,
        is_exact=True,
        has_metal=True,
        bandwidth_bytes_per_second=None,
    )
    fit = fit_model(describe_model(DEMO_MODEL.path), machine, context_tokens=3000)
    assert fit is not None
    fit = replace(fit, measured=SPEED)

    Banner().ready(Address(ip="127.0.0.1", port=8080), (model,), {"real": fit}, seconds=1.0)

    assert capsys.readouterr().out.splitlines()[1] == (
        "         5.20 MB of weights in a memory limit of 12.00 GB; longest conversation 3,000 tokens; "
        "61.2 tokens/s measured"
    )
