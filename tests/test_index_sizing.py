"""What codes cost: the command's numbers against arithmetic, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lbhash.codes.io import CodeTable
from lbhash.index import build_index
from lbhash.index.sizing import parse_bytes, parse_count, size_of


def test_what_an_index_takes_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    for bits, ids, each in ((12, np.arange(500), 0), (64, 3 * np.arange(500), 8)):
        codes = np.packbits(rng.integers(0, 2, (500, bits)), axis=1, bitorder="little")
        table = CodeTable(codes, bits, np.arange(500))
        info = build_index(table, tmp_path / str(bits), ids=ids, attributes={}).info()
        size = size_of(bits, 500, ids=each)
        assert 0 <= info["bytes"] - size.total <= 2 * 128  # the header of a NumPy file
        assert size.codes == codes.nbytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("16GiB", 2**34), ("16 gib", 2**34), ("1.5KB", 1500), ("64G", 2**36), ("2TB", 2 * 10**12), ("7", 7), ("7B", 7)],
)
def test_amounts(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "-1GiB", "16 XB", "1e9", "16iB"])
def test_bad_amounts(text):
    with pytest.raises(ValueError, match="it must be a number of bytes, or one with KB … TB or KiB … TiB"):
        parse_bytes(text)


def test_counts():
    assert [parse_count(text) for text in ("1e9", "250,000", "1_000", "3")] == [10**9, 250_000, 1000, 3]
    for text in ("0", "1.5", "-3", "many", "inf", "nan", ""):
        with pytest.raises(ValueError, match="it must be a whole number of at least 1"):
            parse_count(text)


def test_the_table_of_the_docs(succeed):
    page = (Path(__file__).parents[1] / "docs" / "deploy.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| 1")]
    arguments = re.search("`lbhash (index size [^`]*)`", page)[1].split()
    out, _ = succeed(*arguments)
    printed = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert len(lines) == 3
    assert lines == printed


def test_the_command(succeed, refuse, json_of):
    assert json_of("index", "size", "--bits", 64, "--count", "1e9", "--memory", "16GiB")["sizes"] == [
        {"bits": 64, "count": 10**9, "row": 16, "total": 16 * 10**9, "codes": 8 * 10**9, "shards": 2}
    ]
    out, _ = succeed("index", "size", "--consecutive", "--attributes", 8)
    assert out.count("GiB") > 6
    cells = [[cell.strip() for cell in line.split("│")] for line in out.splitlines() if "│" in line]
    for length, row in ((16, 10), (32, 12), (64, 16), (128, 24)):
        assert sum(line[2:4] == [str(length), str(row)] for line in cells) == 3, out
    refuse("index", "size", "--memory", "much")
