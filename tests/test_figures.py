import csv

import numpy as np
import pytest
from matplotlib.image import imread

from lbhash.codes import pack
from lbhash.evaluation.plots import (
    precision_at_k_figure,
    precision_recall_figure,
    radius_figure,
    write_curves,
)
from lbhash.evaluation.report import evaluate


@pytest.fixture(scope="module")
def reports():
    rng = np.random.default_rng(0)
    codes, labels = pack(rng.choice([-1, 1], (80, 12))), rng.integers(0, 3, 80)
    first = evaluate(codes[:20], labels[:20], codes[20:], labels[20:], bits=12)
    return {"csq": first, "csq_d": evaluate(codes[:20], labels[:20], codes[20:50], labels[20:50], bits=12)}


def test_curves_are_written(reports, tmp_path):
    files = write_curves(reports, tmp_path / "new" / "curves")
    assert {file.name for file in files} == {file.name for file in (tmp_path / "new" / "curves").iterdir()}
    for file in files:
        if file.suffix == ".png":
            image = imread(file)
            assert image.shape[:2] == (675, 1200)
            assert image[..., :3].std() > 0.02
    for name, key, curve in (("ranks.csv", "k", "rank_curve"), ("radii.csv", "radius", "curve")):
        with (tmp_path / "new" / "curves" / name).open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        for method, report in reports.items():
            own = [row for row in rows if row["name"] == method]
            points = getattr(report, curve)
            assert [int(row[key]) for row in own] == points.at.tolist()
            assert [float(row["precision"]) for row in own] == points.precision.tolist()
            assert [float(row["recall"]) for row in own] == points.recall.tolist()


def test_one_evaluation_without_a_name(reports, tmp_path):
    write_curves({"": reports["csq"]}, tmp_path)
    lines = (tmp_path / "radii.csv").read_text().splitlines()
    assert lines[0] == "radius,precision,recall"
    assert lines[1].startswith("0,")
    assert len(lines) == 14


def test_the_lines_are_the_curves(reports):
    for by, curve in (("radius", "curve"), ("rank", "rank_curve")):
        lines = precision_recall_figure(reports, by).axes[0].get_lines()
        for line, report in zip(lines, reports.values(), strict=True):
            assert line.get_xdata().tolist() == getattr(report, curve).recall.tolist()
            assert line.get_ydata().tolist() == getattr(report, curve).precision.tolist()
    axes = precision_at_k_figure(reports).axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_lines()[1].get_xdata().tolist() == reports["csq_d"].rank_curve.at.tolist()
    recall = radius_figure(reports).axes[0].get_lines()[1]
    assert recall.get_ydata().tolist() == reports["csq"].curve.recall.tolist()


def test_one_report_needs_no_legend_of_methods(reports):
    assert precision_recall_figure({"": reports["csq"]}).axes[0].get_legend() is None
    assert precision_recall_figure(reports).axes[0].get_legend().get_title().get_text() == "method"


def test_a_file_in_the_way(reports, tmp_path):
    (tmp_path / "curves").write_text("")
    with pytest.raises(ValueError, match=r"curves is .*, which is a file; it must be a folder"):
        write_curves(reports, tmp_path / "curves")
