"""Report pages and chart images."""

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from mlxctl.bench.report import make_report
from mlxctl.bench.svg import Bar, draw_bars
from mlxctl.ir.errors import SettingsError
from tests.bench.sample_results import CEILING, FAST, RATES, SLOW, THROUGHPUT, sample_result
from tests.snapshot_location import TextSnapshots

RESULTS = [
    ("latency.json", sample_result(FAST, SLOW, problem="the connection ended during the answer")),
    ("throughput.json", sample_result(RATES, scenario=THROUGHPUT, ceiling=CEILING)),
]


def test_report_page_matches_snapshot(snapshot: SnapshotAssertion) -> None:
    assert make_report(RESULTS).markdown == snapshot(extension_class=TextSnapshots)


def test_report_saves_every_image_of_the_page(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    report = make_report(RESULTS)
    page = report.save(tmp_path / "new")
    assert page.read_text() == report.markdown
    assert {path.name for path in page.parent.glob("*.svg")} == set(report.images)
    assert all(f"]({name})" in report.markdown for name in report.images)
    assert report.images["1-latency-1.svg"] == snapshot(extension_class=TextSnapshots)


def test_result_without_commit_shows_none_in_the_report() -> None:
    result = sample_result(FAST)
    page = make_report(
        [("a.json", dataclasses.replace(result, environment={**result.environment, "commit": None}))]
    ).markdown
    assert "mlxctl 0.1.0, mlx" in page
    assert "None" not in page


def test_results_of_one_name_have_separate_images() -> None:
    assert len(make_report([RESULTS[1], RESULTS[1]]).images) == 2


def test_model_name_cannot_inject_markdown() -> None:
    _, result = RESULTS[1]
    server = dataclasses.replace(result.servers[0], model="`x` | <img src=x>\n# no")
    page = make_report([("a.json", dataclasses.replace(result, servers=(server,)))]).markdown
    assert "- A: ` x | <img src=x> # no`," in page.replace("`x", "` x")


@given(st.text(max_size=20), st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_charts_are_well_formed_svg_for_any_text(text: str, values: list[float]) -> None:
    printable = "".join(character for character in text if character.isprintable())
    bars = [
        Bar(label=printable, series="A", value=value, lowest=value / 2, highest=value, text=printable)
        for value in values
    ]
    image = ET.fromstring(draw_bars(printable, bars))
    widths = [float(rect.get("width", "-1")) for rect in image.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(widths) == len(values)
    assert all(0 <= width <= 720 for width in widths)


def test_unwritable_report_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written"):
        make_report(RESULTS).save(tmp_path / "file" / "inside")
