"""What the tests of ``lbhash reproduce`` share."""

import csv
import re

import numpy as np
from matplotlib.image import imread

from lbhash.reproduce.results.write import write_result


def check_files(name, result, out):
    """Write the files and check them."""
    write_result(name, result, out, "the command")
    check_written(name, result, out, "the command")


def check_written(name, result, out, command):
    """All files are there, the images are images, and the tables hold the rows."""
    parts = result.tables(name)
    expected = {f"{name}.md"} | {f"{part}.{kind}" for part in parts for kind in ("csv", "png")}
    assert {file.name for file in out.iterdir()} == expected
    page = (out / f"{name}.md").read_text()
    assert f"Made by `{command}`." in page
    assert re.search(r"\{\w+\}", page) is None
    for part, table in parts.items():
        assert f"({part}.png)" in page
        image = imread(out / f"{part}.png")
        assert min(image.shape[:2]) > 300
        assert image[..., :3].std() > 0.02
        with (out / f"{part}.csv").open(newline="") as lines:
            rows = list(csv.reader(lines))
        assert len(rows) == len(table.table) + 1
        assert {len(row) for row in rows} == {len(rows[0])}


def split_blobs(blobs, **labels):
    """The columns of a file whose training rows are the base, and whose queries are others."""
    query = np.arange(200) >= 160
    return np.vstack([blobs.x, blobs.query_x]), {"in_train": ~query, "in_base": ~query, "in_query": query, **labels}
