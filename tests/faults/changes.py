"""Data that are rewritten, cut, replaced or deleted while a command reads them."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.faults.attack import Run, attack
from tests.faults.program import Program

ROWS, DIM = 20_000, 16
SUFFIXES = (".parquet", ".npy", ".npz", ".csv", ".arrow")


def write(file: Path, seed: int) -> Path:
    """Write embeddings in the form of the file's suffix."""
    rows = np.random.default_rng(seed).normal(size=(ROWS, DIM)).astype(np.float32)
    table = pa.table({"embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIM)})
    if file.suffix == ".parquet":
        pq.write_table(table, file, row_group_size=ROWS // 10)
    elif file.suffix == ".npy":
        np.save(file, rows)
    elif file.suffix == ".npz":
        np.savez(file, embedding=rows)
    elif file.suffix == ".csv":
        np.savetxt(file, rows, "%.6g", ",", header=",".join(f"e{at}" for at in range(DIM)), comments="")
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, ROWS // 10)
    return file


def change(rng: random.Random, file: Path, other: Path) -> str:
    """Change a file in a way that the random numbers choose, and return its name."""
    how = rng.choice(["cut", "rewritten", "replaced", "deleted", "alternating"])
    if how == "cut":
        os.truncate(file, rng.randrange(file.stat().st_size))
    elif how == "replaced":
        shutil.copy(other, file.with_name("new"))
        file.with_name("new").replace(file)
    elif how == "deleted":
        file.unlink()
    else:
        whole = file.read_bytes(), other.read_bytes()
        for number in range(9 if how == "alternating" else 1):
            with file.open("r+b") as opened:
                opened.write(whole[1 - number % 2])
                opened.truncate()
            time.sleep(0.01)
    return how


@attack("changed-data", "changes data while encode reads them", 600)
def changed_data(run: Run) -> None:
    program = Program(run.folder / "cache")
    model, out = run.folder / "model", run.folder / "codes.parquet"
    program.must("train", write(run.folder / "train.npy", 0), "--bits", 32, "--method", "itq", "--out", model)

    def encoding(file: Path) -> tuple:
        return "encode", file, "--model", model, "--split", "all", "--out", out, "--overwrite"

    files, known, seconds = {}, {}, {}
    for suffix in SUFFIXES:
        for seed in (1, 2):
            files[suffix, seed] = write(run.folder / f"{seed}{suffix}", seed)
            started = time.monotonic()
            program.must(*encoding(files[suffix, seed]))
            seconds[suffix] = time.monotonic() - started
            known[suffix, seed] = pq.read_table(out)["code"]
    for rng in run.faults():
        suffix = rng.choice(SUFFIXES)
        file = run.folder / f"data{suffix}"
        shutil.copy(files[suffix, 1], file)
        process = program.begin(*encoding(file))
        process.go()
        time.sleep(rng.uniform(0, seconds[suffix]))
        how = change(rng, file, files[suffix, 2])
        done = process.wait()
        if done.crash or done.refused:
            run.count("crashed" if done.crash else "refused", f"{suffix} {how}: {done.crash}")
            continue
        right = pq.read_table(out)["code"] in (known[suffix, 1], known[suffix, 2])
        run.count("survived" if right else "wrong", f"{suffix} {how}: codes of neither state")
