"""Small files that ask for much memory: read within a limit, or refused in one line."""

from __future__ import annotations

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.faults.attack import Run, attack
from tests.faults.flips import KINDS
from tests.faults.material import BITS, Material
from tests.faults.program import memory_limit

LIMIT = 2 << 30
"""Bytes that a command may take, besides those of this process."""


def number(rng: random.Random, least: int = 6, most: int = 15) -> int:
    """Return a number of so many digits, as a file of a few kilobytes may hold it."""
    return int(10 ** rng.uniform(least, most))


def header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return an ``.npy`` file that says it holds so much, and holds 4 kB."""
    held = io.BytesIO()
    np.lib.format.write_array_header_1_0(held, {"descr": dtype, "fortran_order": False, "shape": shape})
    return held.getvalue() + bytes(4096)


def labels_of_embeddings(rng: random.Random, folder: Path, material: Material) -> tuple:
    label = number(rng, 6, 18)
    column = {"label": [0, 1, 1, label]} if rng.random() < 0.5 else {"labels": [[0], [1], [1], [label]]}
    splits = {f"in_{name}": [True] * 4 for name in ("train", "base", "query")}
    pq.write_table(pa.table({"embedding": [[0.5, 1.0]] * 4, **column, **splits}), folder / "rows.parquet")
    return ("train", folder / "rows.parquet", "--out", folder / "model", "--epochs", 1)


def labels_of_codes(rng: random.Random, folder: Path, material: Material) -> tuple:
    largest = number(rng, 6, 18)
    facts = {"bits": 8, "model": "", "classes": rng.choice([largest, 10])}
    lists = {"labels": [[0], [1], [min(largest, 2**62)]]} if rng.random() < 0.7 else {"label": [0, 1, largest]}
    code = pa.array([b"a", b"b", b"c"], pa.binary(1))
    table = pa.table({"row": [0, 1, 2], "code": code, **lists}).replace_schema_metadata({"lbhash": json.dumps(facts)})
    pq.write_table(table, folder / "codes.parquet")
    codes = folder / "codes.parquet"
    if rng.random() < 0.5:
        return ("evaluate", "--queries", codes, "--base", codes)
    return ("index", "build", "--codes", codes, "--out", folder / "index")


def bits_of_codes(rng: random.Random, folder: Path, material: Material) -> tuple:
    facts = {"bits": number(rng), "model": "", "classes": 0}
    table = pa.table({"row": [0, 1], "code": pa.array([b"a", b"b"], pa.binary(1)), "label": [0, 1]})
    pq.write_table(table.replace_schema_metadata({"lbhash": json.dumps(facts)}), folder / "codes.parquet")
    return ("index", "build", "--codes", folder / "codes.parquet", "--out", folder / "index")


def shape_of_arrays(rng: random.Random, folder: Path, material: Material) -> tuple:
    shape = (number(rng), number(rng, 1, 4))
    dtype = rng.choice(["|u1", "<f4", "|b1", "<i8"])
    file = folder / rng.choice(["rows.npz", "rows.npy"])
    if file.suffix == ".npz":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("codes", "embeddings"):
                archive.writestr(f"{name}.npy", header(shape, dtype))
    else:
        file.write_bytes(header(shape, dtype))
    return rng.choice(
        [
            ("evaluate", "--queries", file, "--base", file, "--bits", BITS),
            ("index", "build", "--codes", file, "--out", folder / "index"),
            ("encode", "--model", material.model, file, "--out", folder / "codes.npz"),
            ("train", file, "--out", folder / "model", "--epochs", 1),
        ]
    )


def zeros_in_archives(rng: random.Random, folder: Path, material: Material) -> tuple:
    wide = number(rng, 5, 7)
    np.savez_compressed(folder / "rows.npz", embeddings=np.zeros((8, wide), np.float32), labels=np.arange(8) % 2)
    if rng.random() < 0.5:
        return ("encode", "--model", material.model, folder / "rows.npz", "--out", folder / "codes.npz")
    data = folder / "data"
    data.mkdir()
    for name in ("train", "base", "query"):
        shutil.copy(folder / "rows.npz", data / f"{name}.npz")
    return ("train", data, "--out", folder / "model", "--epochs", 1)


def repeated_rows(rng: random.Random, folder: Path, material: Material) -> tuple:
    """Rows that are all the same, 64 MiB in a few hundred bytes."""
    flat = pa.array(np.zeros((1 << 16) * 256, np.float32))
    rows = pa.table({"embedding": pa.FixedSizeListArray.from_arrays(flat, 256), "label": np.zeros(1 << 16, np.int64)})
    with pq.ParquetWriter(folder / "rows.parquet", rows.schema, compression="zstd") as writer:
        for _ in range(rng.randint(40, 200)):
            writer.write_table(rows)
    if rng.random() < 0.5:
        return ("encode", "--model", material.model, folder / "rows.parquet", "--out", folder / "codes.npz")
    return ("train", folder / "rows.parquet", "--protocol", "holdout", "--out", folder / "model")


def settings_of_models(rng: random.Random, folder: Path, material: Material) -> tuple:
    shutil.copytree(material.model, folder / "model")
    config = json.loads((folder / "model" / "config.json").read_text())
    config[rng.choice(["dim", "bits", "hidden", "classifier"])] = number(rng)
    (folder / "model" / "config.json").write_text(json.dumps(config))
    return ("encode", "--model", folder / "model", material.data / "query.npz", "--out", folder / "codes.npz")


def weights_of_models(rng: random.Random, folder: Path, material: Material) -> tuple:
    shutil.copytree(material.model, folder / "model")
    file = folder / "model" / "model.safetensors"
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8 : 8 + size])
    tensor = tensors[rng.choice([name for name in tensors if name != "__metadata__"])]
    tensor["shape"] = [number(rng), *tensor["shape"][1:]]
    if rng.random() < 0.5:
        tensor["data_offsets"][1] = number(rng)
    changed = json.dumps(tensors).encode()
    length = len(changed) if rng.random() < 0.7 else number(rng)
    file.write_bytes(length.to_bytes(8, "little") + changed + content[8 + size :])
    return ("encode", "--model", folder / "model", material.data / "query.npz", "--out", folder / "codes.npz")


def manifests_of_parts(rng: random.Random, folder: Path, material: Material) -> tuple:
    shutil.copytree(material.parts, folder / "parts")
    file = folder / "parts" / "_manifest.json"
    manifest = json.loads(file.read_text())
    manifest["rows"] = number(rng, 4, 18)
    manifest["part_rows"] = rng.choice([1, 80, number(rng)])
    file.write_text(json.dumps(manifest))
    codes = folder / "parts"
    if rng.random() < 0.5:
        return ("evaluate", "--queries", material.codes("query"), "--base", codes)
    return ("index", "build", "--codes", codes, "--out", folder / "index")


def manifests_of_indexes(rng: random.Random, folder: Path, material: Material) -> tuple:
    """Another number in an index, with a checksum that is right."""
    from lbhash.index.manifest import checksum

    shutil.copytree(material.index(rng.choice(KINDS)), folder / "index")
    file = folder / "index" / "index.json"
    manifest = json.loads(file.read_text())
    manifest.pop("checksum")
    places = [(held, key) for held in _objects(manifest) for key, value in held.items() if type(value) is int]
    held, key = rng.choice(places)
    held[key] = number(rng, 1, 18)
    file.write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
    if rng.random() < 0.5:
        return ("index", "add", folder / "index", "--codes", material.codes())
    return ("search", folder / "index", "--code", "0f3a")


def arrays_of_indexes(rng: random.Random, folder: Path, material: Material) -> tuple:
    shutil.copytree(material.index(rng.choice(KINDS)), folder / "index")
    file = rng.choice(sorted((folder / "index").glob("0*.npy")))
    array = np.load(file)
    file.write_bytes(header((number(rng), *array.shape[1:]), array.dtype.str) + array.tobytes())
    return ("search", folder / "index", "--code", "0f3a")


def _objects(value: object) -> list[dict]:
    """Return all objects in JSON."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for part in inner for found in _objects(part))]


def ask(run: Run, *files: Callable[[random.Random, Path, Material], tuple]) -> None:
    """Read small files within a limit of memory."""
    material = Material(run)
    for made in (material.model, material.parts, material.codes("query"), *map(material.index, KINDS)):
        assert made.exists()
    least, most = material.program.call(int).peak, 0
    material.program.before = memory_limit(LIMIT)
    for rng in run.faults():
        work = run.folder / "work"
        work.mkdir()
        make = rng.choice(files)
        arguments = make(rng, work, material)
        done = material.program(*arguments)
        most = max(most, done.peak - least)
        if done.crash:
            run.count("crashed", f"{make.__name__}, {' '.join(map(str, arguments[:2]))}: {done.crash}")
        else:
            run.count("refused" if done.refused else "survived")
        shutil.rmtree(work)
    run.note("most memory", f"{most >> 20} MiB")


@attack("memory", f"small files that ask for up to 10^18 bytes, read with {LIMIT >> 30} GiB of memory", 400)
def memory(run: Run) -> None:
    of_data = (labels_of_embeddings, labels_of_codes, bits_of_codes, shape_of_arrays, zeros_in_archives)
    of_folders = (settings_of_models, weights_of_models, manifests_of_parts, manifests_of_indexes, arrays_of_indexes)
    ask(run, *of_data, *of_folders)


@attack("memory-parquet", f"Parquet files of 2.5 to 12 GiB in a few kB, read with {LIMIT >> 30} GiB of memory", 10)
def memory_parquet(run: Run) -> None:
    ask(run, repeated_rows)
