"""Every sampling field of a body has an effect and a description."""

import dataclasses
from pathlib import Path

from mlxctl.ir import SamplingOptions
from mlxctl.protocols.extension_fields import ExtensionFields
from mlxctl.protocols.sampling_fields import SamplingFields

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sampling.md"
FIELDS = {*SamplingFields.__struct_fields__} - {*ExtensionFields.__struct_fields__}


def test_every_field_reaches_the_sampling_options() -> None:
    options = {field.name for field in dataclasses.fields(SamplingOptions)}
    composed = {name for name in FIELDS if name == "hlg" or name.startswith("dry_")}
    assert FIELDS - composed - options == set(), (
        "the body takes these fields and nothing reads them: add them to SamplingOptions and SamplingParams "
        "(mlxctl/ir/requests.py), or convert them in sampling_options and name them here"
    )


def test_every_field_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("## Sampling")[1].split("## ")[0]
    missing = {name for name in FIELDS if f"`{name}`" not in table}
    assert missing == set(), "add a row for each of these fields to docs/reference/sampling.md"
