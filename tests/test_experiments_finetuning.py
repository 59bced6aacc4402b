"""Fine-tuned methods side by side: the runs, those that are there already, the table and the picture."""

from __future__ import annotations

import json
import shutil

import pytest
from benchmarks.experiments import finetuning

from image_tools import write_backbone, write_stripes

pytestmark = pytest.mark.end_to_end

pytest.importorskip("transformers")


def test_the_runs_and_the_table(tmp_path, monkeypatch, capsys, in_this_process):
    in_this_process(finetuning)
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    write_stripes(tmp_path / "images", 160)
    write_backbone(tmp_path / "small")
    given = {"data": tmp_path / "images", "backbone": tmp_path / "small", "methods": "csq", "bits": 8, "epochs": 2}
    given |= {"image-size": 16, "runs": tmp_path / "runs", "out": tmp_path / "page.md"}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    finetuning.main(words)
    marks = "bits8-image_size16-epochs2-backbone_lr0.0001-validation0.1-seed0"
    folders = [tmp_path / "runs" / f"images-{name}-{marks}" for name in ("csq", "csq_d")]
    plain, guided = (json.loads((folder / "metrics.json").read_text()) for folder in folders)
    page = (tmp_path / "page.md").read_text()
    assert f"| csq | {plain['map']:.4f} | {plain['map_worst']:.4f}–{plain['map_best']:.4f} |  | " in page
    lift = 100 * (guided["map"] - plain["map"])
    assert (
        f"| csq_d | {guided['map']:.4f} | {guided['map_worst']:.4f}–{guided['map_best']:.4f} | {lift:+.1f} | " in page
    )
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    shutil.rmtree(folders[1])
    finetuning.main(words)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines() if ": mAP" in line] == ["csq_d"]
    assert (tmp_path / "page.md").read_text().splitlines()[2] == page.splitlines()[2]
