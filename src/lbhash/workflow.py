"""What the commands do: a data set in, a model, codes or figures out, all of it in files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lbhash.codefile import CodeTable, check_suffix, read_codes, write_codes
from lbhash.data import Dataset, Part, load_dataset, load_table
from lbhash.evaluation import Report, evaluate
from lbhash.files import existing_file, write_json
from lbhash.hasher import Hasher
from lbhash.index import FlatIndex
from lbhash.model import check_model_folder


def train_model(
    dataset: Dataset,
    out: str | Path,
    *,
    at: int | None = None,
    split_seed: int = 0,
    log: Literal["csv", "tensorboard"] = "csv",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Train on a data set, evaluate its queries against its base, and write the model folder.

    Args:
        dataset: train, base and query.
        out: the folder: the model's files, ``metrics.json``, ``logs/`` and ``checkpoints/``.
        at: rank of the mAP; the whole base where it is not given.
        split_seed: the protocol's seed, remembered in the model.
        log: of the epochs.
        resume: go on from the folder's checkpoint.
        overwrite: replace a model that the folder holds.
        progress: show a bar.
        settings: of ``Hasher``.

    Returns:
        What ``metrics.json`` holds.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out is {str(out)!r}, which is a file; it must be a folder")
    if (folder / "config.json").exists() and not (resume or overwrite):
        raise ValueError(f"out is {str(out)!r}, which already holds a model; give another folder, or --overwrite")
    if at is not None and not 1 <= at <= len(dataset.base):
        raise ValueError(f"at is {at}; it must be from 1 to the size of the base ({len(dataset.base)})")
    hasher = Hasher(progress=progress, **settings)
    started = time.perf_counter()
    hasher.fit_part(dataset.train, dataset.classes, directory=folder, resume=resume, logger=log)
    seconds = time.perf_counter() - started
    report = evaluate(
        hasher.encode_part(dataset.query),
        dataset.query.labels,
        hasher.encode_part(dataset.base),
        dataset.base.labels,
        at,
        bits=hasher.bits,
    )
    metrics = {
        "data": dataset.name,
        "protocol": dataset.protocol,
        "method": hasher.name,
        "bits": hasher.bits,
        "seed": hasher.seed,
        "epochs": hasher.epochs,
        "train_seconds": round(seconds, 2),
        **report.as_dict(),
    }
    hasher.model_.about |= {"data": dataset.name, "protocol": dataset.protocol, "split seed": split_seed}
    hasher.save_pretrained(folder)
    write_json(folder / "metrics.json", metrics)
    return metrics


def encode_file(
    model: str | Path,
    data: str | Path,
    split: str,
    out: str | Path,
    *,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int | None = None,
) -> dict[str, Any]:
    """Encode a split of a data set, or ``all`` its rows, into a file of codes.

    Protocol and seed of the split are those of the training where they are not given, so that no training row
    slips into the queries.
    """
    check_suffix(out)
    hasher = Hasher.from_pretrained(check_model_folder(model))
    about = hasher.model_.about
    if split == "all" and not Path(data).is_dir():
        table = load_table(data, labels)
        part = Part(table.embeddings, np.arange(len(table.embeddings)), table.labels)
    else:
        drawn = about.get("protocol") not in ("flags", "files")
        if protocol is None and drawn:
            protocol = about.get("protocol")
        seed = about.get("split seed", 0) if split_seed is None else split_seed
        dataset = load_dataset(data, labels=labels, protocol=protocol, seed=seed)
        if protocol is None and dataset.protocol not in ("flags", "files"):
            raise ValueError(
                f"split is {split!r}, and neither the model nor the data say which rows that is; "
                "give a protocol, or split all"
            )
        part = dataset.part(split)
    codes = hasher.encode_part(part)
    write_codes(out, CodeTable(codes, hasher.bits, part.rows, part.labels, hasher.model_.fingerprint()))
    return {"codes": len(codes), "bits": hasher.bits, "bytes": codes.nbytes, "split": split, "out": str(out)}


def evaluate_files(queries: str | Path, base: str | Path, *, at: int | None = None, radius: int = 2) -> Report:
    """Evaluate one file of codes as queries against another as base."""
    left, right = read_codes(queries, "queries"), read_codes(base, "base")
    _check_same_model(left.bits, left.model, right, "queries")
    for table, name in ((left, "queries"), (right, "base")):
        if table.labels is None:
            raise ValueError(f"{name} has no labels; an evaluation needs them")
    return evaluate(left.codes, left.labels, right.codes, right.labels, at, radius=radius, bits=left.bits)


def search_row(model: str | Path, base: str | Path, data: str | Path, row: int, k: int) -> dict[str, Any]:
    """The k codes of ``base`` (a file of codes or an index) nearest to one row of ``data``."""
    hasher = Hasher.from_pretrained(check_model_folder(model))
    table = load_table(data)
    if not 0 <= row < len(table.embeddings):
        raise ValueError(f"row is {row}; it must be from 0 to {len(table.embeddings) - 1}")
    query = hasher.encode_part(Part(table.embeddings, np.array([row]), None))
    labels: dict[int, Any] = {}
    if Path(base).suffix in (".parquet", ".npz"):
        held = read_codes(base, "base")
        _check_same_model(hasher.bits, hasher.model_.fingerprint(), held, "the model")
        index = FlatIndex(held.codes.shape[1])
        index.add(held.codes, held.rows)
        if held.labels is not None:
            labels = {int(name): _label(label) for name, label in zip(held.rows, held.labels, strict=True)}
    else:
        index = FlatIndex.load(existing_file(base, "index"))
        if index.code_bytes != query.shape[1]:
            raise ValueError(f"index holds codes of {index.code_bytes} bytes and the model makes {query.shape[1]}")
    distances, ids = index.search(query, k)
    return {
        "row": row,
        "label": None if table.labels is None else _label(table.labels[row]),
        "neighbors": [
            {"rank": rank, "row": int(name), "distance": int(distance), "label": labels.get(int(name))}
            for rank, (name, distance) in enumerate(zip(ids[0], distances[0], strict=True), start=1)
        ],
    }


def _check_same_model(bits: int, fingerprint: str, base: CodeTable, name: str) -> None:
    if bits != base.bits:
        raise ValueError(f"base holds codes of {base.bits} bits and {name} has {bits}; encode both with one model")
    if fingerprint and base.model and fingerprint != base.model:
        raise ValueError(
            f"base was encoded by model {base.model} and {name} by {fingerprint}; encode both with one model"
        )


def _label(label: Any) -> Any:
    return np.flatnonzero(label).tolist() if np.ndim(label) else int(label)
