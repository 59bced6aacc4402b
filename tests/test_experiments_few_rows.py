"""Both recipes where few rows train: the figures of the table are those of the hasher."""

import numpy as np
from benchmarks.experiments import few_rows

from lbhash.data import hold_out, load_dataset
from lbhash.evaluation.held_out import score_codes
from lbhash.hasher import Hasher


def test_a_line_has_the_map_of_both_recipes(capsys):
    few_rows.main(["--data", "digits", "--rows", "100", "--bits", "8", "--epochs", "2", "--seeds", "2"])
    line = [cell.strip() for cell in capsys.readouterr().out.splitlines()[-1].strip("|").split("|")]
    fitted, validation = hold_out(load_dataset("digits").train, 0.2, 0)
    part = hold_out(fitted, 100 / len(fitted), 1)[1]
    expected = []
    for recipe in ("paper", "tuned"):
        maps = []
        for seed in range(2):
            hasher = Hasher(8, "csq_d", epochs=2, seed=seed, recipe=recipe).fit_split(part, 10)
            codes = hasher.encode_split(validation)
            maps.append(100 * score_codes(codes, validation.labels, 10, 8, with_map=True).map)
        expected.append(f"{np.mean(maps):.1f}")
    assert line[:5] == ["digits", f"{len(part):,}", "8", *expected]
