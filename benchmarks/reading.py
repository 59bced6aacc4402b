"""Time and memory of reading a data set from Parquet and from CSV, perhaps beside another version of lbhash.

    python benchmarks/reading.py --rows 1000000
    python benchmarks/reading.py --beside ../lbhash-before/src

Every reading is a process of its own, with warm files, and the two versions take turns. "seconds" are those of
``read_table`` alone, the median of the rounds; "MB" is the most memory that the process had, less what it had before.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from side_by_side import of_child, options, print_head, print_row

ONE = """
import pathlib, sys, time
import numpy, pyarrow
from lbhash.data.readers import read_table
most = lambda: int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1000
before, started = most(), time.perf_counter()
table = read_table(sys.argv[1], stream=sys.argv[2] == "streamed")
for start in range(0, len(table) if sys.argv[2] == "streamed" else 0, 8192):
    table.embeddings[start : start + 8192]
print(time.perf_counter() - started, most() - before)
"""
FILES = {"list.parquet": "read", "streamed.parquet": "streamed", "wide.csv": "read"}


def write(folder: Path, rows: int, dim: int) -> None:
    """Write the same labels and embeddings as lists in Parquet, and as a column for each number in CSV."""
    rng = np.random.default_rng(0)
    label = pa.array([f"class {number}" for number in range(100)]).take(pa.array(rng.integers(0, 100, rows)))
    vectors = rng.normal(size=(rows, dim)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(vectors.ravel(), dim).cast(pa.list_(pa.float32()))
    pq.write_table(pa.table({"label": label, "embedding": lists}), folder / "list.parquet")
    (folder / "streamed.parquet").hardlink_to(folder / "list.parquet")
    pyarrow.csv.write_csv(
        pa.table({"label": label, **{f"x{at}": vectors[:, at] for at in range(dim)}}), folder / "wide.csv"
    )


def measure(file: Path, how: str, source: Path) -> list[float]:
    """Return seconds and megabytes of one reading by the sources of one version."""
    os.environ["PYTHONPATH"] = str(source)
    return of_child(ONE, file, how)


def main() -> None:
    """Print the table."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--beside", type=Path, help="the folder src of another version")
    given = parser.parse_args()
    sources = {"here": Path(__file__).parents[1] / "src"} | ({"beside": given.beside} if given.beside else {})
    print_head("file", "version", "seconds", "MB", "/ beside, seconds", "/ beside, MB", words=2)
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), given.rows, given.dim)
        for file, how in FILES.items():
            runs = [[measure(Path(place) / file, how, one) for one in sources.values()] for _ in range(given.rounds)]
            found = np.median(runs, axis=0)
            for name, own in zip(sources, found, strict=True):
                print_row(file, name, f"{own[0]:.2f}", f"{own[1]:,.0f}", *(f"{one:.2f}" for one in own / found[-1]))


if __name__ == "__main__":
    main()
