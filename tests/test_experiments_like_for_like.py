"""The table that compares hosts with their guided forms: its intervals, its corrected p-values, and one whole run."""

import numpy as np
import pytest
from benchmarks.experiments import like_for_like


def test_the_bootstrap_draws_seeds_and_queries():
    rng = np.random.default_rng(1)
    lift = rng.normal(0, 1, (3, 40)) + rng.normal(0, 2, (3, 1))
    slow = [lift[np.ix_(rng.integers(0, 3, 3), rng.integers(0, 40, 40))].mean() for _ in range(4000)]
    means = like_for_like.bootstrap(lift, 4000)
    assert means.mean() == pytest.approx(lift.mean(), abs=0.1)
    assert means.std() == pytest.approx(np.std(slow), rel=0.05)


def test_the_bootstrap_of_what_all_queries_share_is_that_of_the_seeds():
    means = like_for_like.bootstrap(np.array([[1.0] * 5, [2.0] * 5]), 4000)
    assert set(np.round(means, 9)) == {1.0, 1.5, 2.0}


def test_p_values_count_the_draws_on_the_other_side_of_zero():
    assert like_for_like.p_value(np.array([1.0] * 98 + [-1.0])) == pytest.approx(2 * 2 / 100)
    assert like_for_like.p_value(np.zeros(10)) == 1.0


def test_holm_corrects_as_its_definition_says():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert like_for_like.holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_a_run_goes_on_and_prints_both_tables(tmp_path, capsys, in_this_process):
    in_this_process(like_for_like)
    given = ["--data", "digits", "--out", str(tmp_path), "--methods", "csq", "--bits", "8", "--epochs", "1"]
    page = tmp_path.with_suffix(".md")
    page.write_text("Before.\n<!-- like-for-like: begin -->\n<!-- like-for-like: end -->\n")
    given += ["--seeds", "2", "--workers", "1", "--page", str(page)]
    like_for_like.main(given)
    printed = capsys.readouterr().out
    assert "| digits | with centers |" in printed
    assert printed in page.read_text()
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    files = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(files) == 5
    like_for_like.main(given)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == files
    assert capsys.readouterr().out == printed
    for file in files:  # the cells are in the page's CSV
        file.unlink()
    like_for_like.main(["--out", str(tmp_path), "--page", str(page)])  # nor are data needed then
    assert capsys.readouterr().out == printed
    lines = page.with_suffix(".csv").read_text().splitlines(keepends=True)
    page.with_suffix(".csv").write_text("".join(lines[:-1]))  # which one of them is run anew
    like_for_like.main(given)
    assert {file.name.split("-")[1] for file in tmp_path.iterdir()} == {lines[-1].split(",")[1]}
