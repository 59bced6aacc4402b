import csv

import numpy as np
import pytest
from matplotlib.image import imread

from lbhash.codes import pack
from lbhash.evaluation.plots import precision_recall_figure, write_curves
from lbhash.evaluation.report import evaluate


@pytest.fixture(scope="module")
def reports():
    rng = np.random.default_rng(0)
    codes, labels = pack(rng.choice([-1, 1], (80, 12))), rng.integers(0, 3, 80)
    first = evaluate(codes[:20], labels[:20], codes[20:], labels[20:], bits=12)
    return {"csq": first, "csq_d": evaluate(codes[:20], labels[:20], codes[20:50], labels[20:50], bits=12)}


def test_curves_are_written(reports, tmp_path):
    out, report = tmp_path / "new" / "curves", reports["csq"]
    write_curves(report, out)
    for name in ("precision_recall", "precision_at_k", "precision_within_radius"):
        image = imread(out / f"{name}.png")
        assert image.shape[:2] == (675, 1200)
        assert image[..., :3].std() > 0.02
    for name, key, curve in (("ranks.csv", "k", report.rank_curve), ("radii.csv", "radius", report.curve)):
        with (out / name).open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert [int(row[key]) for row in rows] == curve.at.tolist()
        assert [float(row["precision"]) for row in rows] == curve.precision.tolist()
        assert [float(row["recall"]) for row in rows] == curve.recall.tolist()


def test_the_lines_are_the_curves(reports):
    axes = precision_recall_figure(reports).axes[0]
    for line, report in zip(axes.get_lines(), reports.values(), strict=True):
        assert line.get_xdata().tolist() == report.rank_curve.recall.tolist()
        assert line.get_ydata().tolist() == report.rank_curve.precision.tolist()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["csq", "csq_d"]
