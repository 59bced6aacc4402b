"""Run and qrels files: of codes, and as other programs write and read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lbhash.codes import pack
from lbhash.codes.io import CodeTable, write_codes
from lbhash.pipeline.evaluate import evaluate_files
from lbhash.pipeline.runs import evaluate_run


def written(folder: Path, multi: bool = False, bits: int = 8) -> dict:
    """Queries and base as files of codes, and their run and qrels; what ``evaluate_files`` reports."""
    rng = np.random.default_rng(bits + multi)
    tables = {}
    for name, rows in (("q", 12), ("b", 150)):
        labels = (rng.random((rows, 4)) < 0.3).astype(np.uint8) if multi else rng.integers(0, 4, rows)
        if name == "q" and not multi:
            labels[3] = 9  # nothing is relevant to it
        extra = pa.table({"id": [f"{name}{row}" for row in range(rows)]}) if name == "b" else None
        tables[name] = CodeTable(pack(rng.normal(size=(rows, bits))), bits, np.arange(rows), labels, "", extra)
        write_codes(folder / f"{name}.parquet", tables[name])
    files = {"write_run": folder / "run", "write_qrels": folder / "qrels"}
    return vars(evaluate_files(folder / "q.parquet", folder / "b.parquet", top_k=150, ranks=[1, 10, 100], **files))


@pytest.mark.parametrize("multi", [False, True])
def test_a_run_of_codes_has_the_figures_of_the_codes(multi, tmp_path):
    """With their range over ties, since the score of a run is the distance."""
    report = written(tmp_path, multi)
    found = evaluate_run(tmp_path / "run", tmp_path / "qrels", ranks=[1, 10, 100])
    assert report["map_worst"] < report["map"] < report["map_best"]
    for name in ("map", "map_worst", "map_best", "ndcg", "r_precision", "precision_at", "recall_at", "f1_at"):
        assert found[name] == pytest.approx(report[name], rel=1e-12), name
    assert found["depth"] == 150
    if multi:
        assert report["largest_grade"] > 1


def without_ties(folder: Path, depth: int = 60) -> tuple[Path, Path]:
    """A run with other scores than distances, no ties, lists of several lengths that lack some relevant documents."""
    rng = np.random.default_rng(5)
    run, qrels = folder / "other.run", folder / "other.qrels"
    with run.open("w") as opened:
        for query in range(9):
            order = rng.permutation(80)[: depth - 5 * query]
            scores = rng.permutation(1000)[: len(order)] / 7
            lines = [f"q{query} Q0 d{at} 1 {score!r} x\n" for at, score in zip(order, scores.tolist(), strict=True)]
            opened.writelines(lines)
    qrels.write_text(
        "".join(f"q{query}\t0\td{at}\t{int(rng.random() < 0.3)}\n" for query in range(10) for at in range(80))
    )  # q9 has no list
    return run, qrels


def figures(run: Path, qrels: Path) -> list[float]:
    """Ours: AP, R-precision and NDCG of the whole lists, and precision and recall at three places."""
    found = evaluate_run(run, qrels, ranks=[1, 10, 50])
    assert found["map"] == found["map_worst"] == found["map_best"]
    return [found["map"], found["r_precision"], found["ndcg"], *found["precision_at"], *found["recall_at"]]


def test_ir_measures_has_the_same_figures_and_reads_what_is_written(tmp_path):
    measures = pytest.importorskip("ir_measures")

    def theirs(run, qrels, wanted):
        read = list(measures.read_trec_qrels(str(qrels))), list(measures.read_trec_run(str(run)))
        return measures.calc_aggregate(wanted, *read)

    wanted = [measures.AP, measures.Rprec, measures.nDCG @ 60]
    wanted += [name @ rank for name in (measures.P, measures.R) for rank in (1, 10, 50)]
    files = without_ties(tmp_path)
    found = theirs(*files, wanted)
    assert figures(*files) == pytest.approx([found[measure] for measure in wanted], abs=1e-9)
    report = written(tmp_path)
    assert {line.doc_id for line in measures.read_trec_run(str(tmp_path / "run"))} == {f"b{row}" for row in range(150)}
    value = theirs(tmp_path / "run", tmp_path / "qrels", [measures.AP])[measures.AP]
    assert report["map_worst"] < value < report["map_best"]  # it breaks ties by the documents' names


@pytest.mark.slow  # ranx compiles its kernels
def test_ranx_has_the_same_figures_and_reads_what_is_written(tmp_path):
    ranx = pytest.importorskip("ranx")

    def theirs(run, qrels, wanted):
        read = ranx.Qrels.from_file(str(qrels), kind="trec"), ranx.Run.from_file(str(run), kind="trec")
        return ranx.evaluate(*read, wanted, make_comparable=True)

    at = [f"{name}@{rank}" for name in ("precision", "recall") for rank in (1, 10, 50)]
    files = without_ties(tmp_path)
    found = theirs(*files, ["map", "r-precision", "ndcg_burges", *at])
    assert figures(*files) == pytest.approx(list(found.values()), abs=1e-9)
    report = written(tmp_path)
    assert report["map_worst"] < theirs(tmp_path / "run", tmp_path / "qrels", "map") < report["map_best"]


def test_the_command(tmp_path, command, succeed):
    written(tmp_path)
    line = ("evaluate", "--run", tmp_path / "run", "--qrels", tmp_path / "qrels")
    status, said, errors = command(*line, "--top-k", 20, "--json")
    assert (status, errors) == (0, "")
    assert json.loads(said) == evaluate_run(tmp_path / "run", tmp_path / "qrels", top_k=20)
    assert "mAP@20, expected over ties" in command(*line, "--top-k", 20)[1]
    files = ("evaluate", "--queries", tmp_path / "q.parquet", "--base", tmp_path / "b.parquet", "--top-k", 7)
    succeed(*files, "--write-run", tmp_path / "new", "--write-qrels", tmp_path / "qrels2")
    lines = (tmp_path / "new").read_text().splitlines()
    assert len(lines) == 7 * 12
    assert [row.split()[3] for row in lines[:7]] == list("1234567")
    assert (tmp_path / "qrels2").read_bytes() == (tmp_path / "qrels").read_bytes()


@pytest.mark.parametrize(
    ("run", "qrels", "said"),
    [
        ("q Q0 d 1 nan tag", "q 0 d 1", r"^run is '\S+', whose line 1 is 'q Q0 d 1 nan tag'; it must be 'query Q0"),
        ("q Q0 d 1 2 t\nq Q0 d 2 1 t", "q 0 d 1", r"whose line 2 is .* name a document of a query once$"),
        ("q Q0 d 1 2 t", "q d 1", r"^qrels is '\S+', whose line 1 is 'q d 1'; it must be 'query 0 document grade'"),
        ("q Q0 d 1 2 t", "q 0 d 0", r"in which no document is relevant"),
        ("q Q0 d 1 2 t", "p 0 d 1", r"^run is '\S+', which has none of the queries of qrels"),
        ("q Q0 d 1 2 t", "q 0 d 999999999", r"^the largest grade of qrels is 999999999; it must be from 1 to 255"),
    ],
)
def test_files_that_are_wrong(run, qrels, said, tmp_path):
    (tmp_path / "run").write_text(run)
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(ValueError, match=said):
        evaluate_run(tmp_path / "run", tmp_path / "qrels")


def test_options_that_do_not_fit(tmp_path, refuse):
    said = "base is given with run, a ranking without its codes; leave one of the two out"
    assert said in refuse("evaluate", "--run", "r", "--base", "b.parquet")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "line 1 is" in refuse("evaluate", "--run", "r", "--qrels", tmp_path / "binary")
