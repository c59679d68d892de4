"""Overrides in capabilities.toml, which take precedence over probe results.

    ["org/model"]
    tools = "yes"
    tool_parser = "hermes_json"
    tool_delivery = "template"
    thinking = "no"
    max_tokens = 32768

A table has a name of the model: its directory's name, ORG/NAME, an alias, its served name, or its path. Keys
are the questions, with "yes", "no" or "unknown", and values that belong to a question.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from mlxctl.ir import ModelCapabilities, ToolDelivery
from mlxctl.ir.errors import SettingsError
from mlxctl.ir.models import ProbeVerdict
from mlxctl.state.settings.documents import DocumentError, parse_toml, read_text
from mlxctl.state.stores.probe_findings import QUESTIONS, Finding, ProbeRecord

_DELIVERIES: tuple[ToolDelivery, ...] = get_args(ToolDelivery)
VALUE_KEYS: Mapping[str, tuple[str, str, type]] = {
    "tool_parser": ("tools", "parser", str),
    "tool_delivery": ("tools", "delivery", str),
    "thinking_parser": ("thinking", "parser", str),
    "max_tokens": ("practical_context", "tokens", int),
}
"""Keys with values: the question of each, the value's name there, its type."""

_VERDICTS: tuple[ProbeVerdict, ...] = ("yes", "no", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """The overrides of one model. `origin` is the file, for messages."""

    origin: str
    verdicts: Mapping[str, ProbeVerdict] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of prompt and answer together.

        None is the model's context length.
        """
        tokens: int | None = self.values.get("practical_context", {}).get("tokens")
        return tokens


def read_overrides(path: Path) -> dict[str, Override]:
    """Return the tables of the file by model; empty without a file.

    Raises SettingsError.
    """
    try:
        content = parse_toml(read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, DocumentError) as error:
        raise SettingsError(f"capabilities file {str(path)!r} cannot be read: {error}") from None
    return {model: _read_table(table, model, path) for model, table in content.items()}


def write_overrides(records: Sequence[ProbeRecord]) -> str:
    """Return the records as TOML for `read_overrides`, without evidence."""
    import tomli_w

    return tomli_w.dumps({record.model: _to_table(record) for record in records})


def _read_table(table: object, model: str, path: Path) -> Override:
    if not isinstance(table, dict):
        raise SettingsError(f'{model!r} in {str(path)!r} must be a table: write ["{model}"] above its keys')
    verdicts: dict[str, ProbeVerdict] = {}
    values: dict[str, dict[str, Any]] = {}
    for key, value in table.items():
        where = f"{key!r} of {model!r} in {str(path)!r}"
        if key in QUESTIONS:
            verdicts[key] = _verdict(value, where)
        elif key in VALUE_KEYS:
            question, name, kind = VALUE_KEYS[key]
            if not isinstance(value, kind) or isinstance(value, bool):
                raise SettingsError(
                    f"{where}: expected {'a whole number' if kind is int else 'text'}, got {value!r}"
                )
            if isinstance(value, int) and value < 1:
                raise SettingsError(f"{where}: must be at least 1, got {value!r}")
            values.setdefault(question, {})[name] = value
        elif isinstance(value, dict):
            raise SettingsError(
                f'{where} is a nested table: put the whole name of the model in quotes, ["{model}.{key}"]'
            )
        else:
            raise SettingsError(
                f"unknown key {where}{_near(key)}; known: {', '.join((*QUESTIONS, *VALUE_KEYS))}"
            )
    return Override(origin=str(path), verdicts=verdicts, values=values)


def _near(key: str) -> str:
    close = difflib.get_close_matches(key, (*QUESTIONS, *VALUE_KEYS), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _verdict(value: object, where: str) -> ProbeVerdict:
    for verdict in _VERDICTS:
        if value == verdict:
            return verdict
    raise SettingsError(f'{where}: expected "yes", "no" or "unknown", got {value!r}')


def _to_table(record: ProbeRecord) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for finding in record.findings:
        table[finding.question] = finding.verdict
        table |= {
            key: finding.value[name]
            for key, (question, name, _) in VALUE_KEYS.items()
            if question == finding.question and finding.value.get(name)
        }
    return table


def apply_overrides(findings: Sequence[Finding], override: Override | None) -> tuple[Finding, ...]:
    """Return the findings with overrides applied, in the order of questions.

    An override replaces a finding with its evidence.
    """
    known: dict[str, Finding] = {finding.question: finding for finding in findings}
    if override is not None:
        for question in {**override.verdicts, **override.values}:
            known[question] = _overridden(question, known.get(question), override)
    return tuple(known[question] for question in QUESTIONS if question in known)


def to_capabilities(findings: Sequence[Finding]) -> ModelCapabilities:
    """Return the findings as capabilities, for loading a model."""
    known = {finding.question: finding for finding in findings}
    tools, thinking = known.get("tools"), known.get("thinking")
    delivery = tools.value.get("delivery") if tools else None
    return ModelCapabilities(
        tools=_truth(tools),
        tool_parser_id=tools.value.get("parser") if tools else None,
        tool_delivery=next(
            (known_delivery for known_delivery in _DELIVERIES if known_delivery == delivery), None
        ),
        thinking=_truth(thinking),
        thinking_parser_id=thinking.value.get("parser") if thinking else None,
    )


def _overridden(question: str, found: Finding | None, override: Override) -> Finding:
    value = {**(found.value if found else {}), **override.values.get(question, {})}
    # A configured tool parser implies tool support.
    verdict = override.verdicts.get(question, "yes")
    return Finding(question=question, verdict=verdict, reason=f"set in {override.origin}", value=value)


def _truth(finding: Finding | None) -> bool | None:
    answers: Mapping[str, bool] = {"yes": True, "no": False}
    return answers.get(finding.verdict) if finding is not None else None
