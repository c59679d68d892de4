"""Overrides in TOML: precedence over findings, and round trips."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.ir import ModelCapabilities
from mlxctl.ir.errors import SettingsError
from mlxctl.state.stores import ProbeRecord, apply_overrides, read_overrides, to_capabilities, write_overrides

from .probe_records import CALLS_TOOLS, DOES_NOT_THINK, RECORDS, record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "capabilities.toml"


def laid_down(file: Path, lines: str) -> tuple[ModelCapabilities, tuple[tuple[str, str], ...]]:
    """Return the findings of a model with these override lines.

    It was found to call tools and not to think.
    """
    file.write_text(f'["org/model"]\n{lines}\n')
    merged = apply_overrides((CALLS_TOOLS, DOES_NOT_THINK), read_overrides(file)["org/model"])
    return to_capabilities(merged), tuple((finding.question, finding.verdict) for finding in merged)


def test_findings_hold_without_overrides() -> None:
    found = to_capabilities(apply_overrides((DOES_NOT_THINK, CALLS_TOOLS), None))
    assert (found.tools, found.tool_parser_id, found.tool_delivery, found.thinking) == (
        True,
        "mistral",
        "injected",
        False,
    )


def test_unknown_findings_leave_detection_from_files() -> None:
    assert to_capabilities(()) == ModelCapabilities()


def test_override_replaces_a_finding(file: Path) -> None:
    capabilities, verdicts = laid_down(file, 'tools = "no"\nvision = "yes"')
    assert capabilities.tools is False
    assert verdicts == (("tools", "no"), ("thinking", "no"), ("vision", "yes"))


def test_parser_override_implies_tool_support(file: Path) -> None:
    capabilities, _ = laid_down(file, 'tool_parser = "hermes_json"\nthinking_parser = "think_tag"')
    assert (capabilities.tool_parser_id, capabilities.tool_delivery) == ("hermes_json", "injected")
    assert (capabilities.thinking, capabilities.thinking_parser_id) == (True, "think_tag")


def test_reason_of_an_override_names_the_file(file: Path) -> None:
    file.write_text('["org/model"]\ntools = "no"\n')
    (finding,) = apply_overrides((CALLS_TOOLS,), read_overrides(file)["org/model"])
    assert (finding.reason, finding.exchanges) == (f"set in {file}", ())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(records=st.lists(RECORDS, max_size=3, unique_by=lambda found: found.model))
def test_written_overrides_are_read_as_the_same_verdicts(file: Path, records: list[ProbeRecord]) -> None:
    file.write_text(write_overrides(records), encoding="utf-8")
    overrides = read_overrides(file)
    assert list(overrides) == [found.model for found in records]
    for found in records:
        verdicts = {finding.question: finding.verdict for finding in found.findings}
        assert overrides[found.model].verdicts == verdicts


def test_written_overrides_include_values(file: Path) -> None:
    file.write_text(write_overrides([record(CALLS_TOOLS)]))
    assert (
        file.read_text()
        == '["org/model"]\ntools = "yes"\ntool_parser = "mistral"\ntool_delivery = "injected"\n'
    )
    assert read_overrides(file)["org/model"].values == {
        "tools": {"parser": "mistral", "delivery": "injected"}
    }


def test_missing_file_has_no_overrides(file: Path) -> None:
    assert read_overrides(file) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tools", "cannot be read"),
        ('tools = "yes"', "must be a table"),
        ("[m]\ntools = true", '\'tools\' of \'m\' in .* expected "yes", "no" or "unknown", got True'),
        ('[m]\ntool = "yes"', "unknown key 'tool' of 'm' .* known: chat, tools"),
        ('[m]\nthinkng = "yes"', "unknown key 'thinkng' of 'm' .* \\(did you mean 'thinking'\\?\\)"),
        ('[Qwen3-0.6B]\ntools = "yes"', 'put the whole name of the model in quotes, \\["Qwen3-0.6B"\\]'),
        ("[m]\nmax_tokens = '8k'", "'max_tokens' of 'm' .* expected a whole number"),
        ("[m]\nmax_tokens = true", "expected a whole number"),
        ("[m]\nmax_tokens = 0", "'max_tokens' of 'm' .* must be at least 1, got 0"),
    ],
)
def test_invalid_override_is_an_error_naming_it(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match=message) as raised:
        read_overrides(file)
    assert "\n" not in str(raised.value)
