"""What the commands do: a data set in, a model, codes or figures out, all of it in files."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbhash.carrying import carried_columns, check_carry
from lbhash.codes.deephash import read_deephash
from lbhash.codes.io import CodeTable, check_suffix, read_codes, write_codes
from lbhash.data import Dataset, Part, load_dataset, load_table, widened
from lbhash.data.images import PictureDataset, holds_pictures, split_images
from lbhash.embeddings import picture_options
from lbhash.evaluation.recognition import classifier_predict
from lbhash.evaluation.report import Report, evaluate
from lbhash.utils.files import check_folder, write_json
from lbhash.utils.system import peak_memory

if TYPE_CHECKING:
    from lbhash.embeddings import ImageOptions
    from lbhash.hasher import Hasher


def train_model(
    dataset: Dataset | PictureDataset,
    out: str | Path,
    *,
    at: int | None = None,
    split_seed: int = 0,
    log: Literal["csv", "tensorboard"] = "csv",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    about: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train on a data set, evaluate its queries against its base, and write the model folder.

    Where several processes train, the first one does all that follows.

    Classes of the train split get a centre each, whatever their numbers are; the model remembers these. A class that
    only base or query have is found, or not, without one.

    Args:
        dataset: train, base and query; of pictures, a backbone is fine-tuned.
        out: the folder: the model's files, ``metrics.json``, ``logs/`` and ``checkpoints/``.
        at: rank of the mAP; the whole base where it is not given.
        split_seed: the protocol's seed, remembered in the model.
        log: of the epochs.
        resume: go on from the folder's checkpoint.
        overwrite: replace a model that the folder holds.
        progress: show a bar.
        about: what the model is to remember besides: the ``backbone`` that made the embeddings (``Backbone.about``),
            how pictures were found (``ImageOptions.about``).
        settings: of ``Hasher``.

    Returns:
        What ``metrics.json`` holds; nothing in the other ones of several processes.
    """
    from lbhash.hasher import Hasher
    from lbhash.training import has_checkpoint, is_main_process

    folder = Path(out)
    check_folder(out, "out")
    resumable = resume and has_checkpoint(folder)
    if (folder / "config.json").exists() and not overwrite and not resumable:
        unresumed = " and no checkpoint to resume from" if resume else ""
        raise ValueError(
            f"out is {str(out)!r}, which already holds a model{unresumed}; give another folder, or --overwrite"
        )
    if at is not None and not 1 <= at <= len(dataset.base):
        raise ValueError(f"at is {at}; it must be from 1 to the size of the base ({len(dataset.base)})")
    hasher = Hasher(progress=progress, **settings)
    if resume and not resumable and is_main_process():
        print(f"{out} has no checkpoint to resume from; training begins anew", file=sys.stderr)
    started = time.perf_counter()
    part, classes = dataset.train.compact()
    hasher.fit_part(part, len(classes), directory=folder, resume=resume, logger=log)
    seconds = time.perf_counter() - started
    if not is_main_process():
        return {}
    training = asdict(hasher.trained_)
    rate = training.pop("rows_per_second")  # so that a resumed run has the metrics of one that was never interrupted
    query, base = hasher.encode_part(dataset.query), hasher.encode_part(dataset.base)
    report = evaluate(query, dataset.query.labels, base, dataset.base.labels, at, bits=hasher.bits)
    recognised = None
    if hasher.model_.classifier is not None and not dataset.multi_label:
        found = classes[classifier_predict(query, hasher.model_.classifier.weight.detach().numpy())]
        recognised = float(np.mean(found == dataset.query.labels))
    metrics = {
        "data": dataset.name,
        "protocol": dataset.protocol,
        "method": hasher.name,
        "bits": hasher.bits,
        "seed": hasher.seed,
        "epochs": hasher.epochs,
        "train_seconds": round(seconds, 2),
        "training": training,
        **(_of_pictures(rate) if isinstance(dataset, PictureDataset) else {}),
        **report.as_dict(),
        "classifier_accuracy": recognised,  # of the method's own classifier, where it has one
    }
    hasher.classes_ = classes
    hasher.model_.about |= {"data": dataset.name, "protocol": dataset.protocol, "split seed": split_seed}
    hasher.model_.about |= about or {}
    if dataset.train.labels is not None and dataset.train.labels.ndim == 2:
        hasher.model_.about["label columns"] = dataset.classes
    hasher.save_pretrained(folder)
    write_json(folder / "metrics.json", metrics)
    return metrics


def _of_pictures(rate: float | None) -> dict[str, Any]:
    """What the metrics of a fine-tuning have besides: the speed of training, and the most memory that was needed."""
    import torch

    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
    speed = None if rate is None else round(rate, 1)
    return {"images_per_second": speed, "peak_bytes": peak_memory(), "peak_gpu_bytes": gpu}


def encode_file(
    model: str | Path,
    data: str | Path,
    split: str,
    out: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int | None = None,
    images: ImageOptions | None = None,
    carry: Sequence[str] = (),
) -> dict[str, Any]:
    """Encode a split of a data set, or ``all`` the rows of a file, into a file of codes.

    (Into a folder of them, with the same memory whatever the number of rows: ``lbhash.encoding.encode_folder``.)

    Protocol and seed of the split are those of the training where they are not given, so that no training row
    slips into the queries. Multi-hot labels get as many columns as those of the training had, so that files that are
    encoded one at a time go together. Pictures are embedded first; ``images`` says how. ``carry`` names columns of the
    data that go into the file of codes too, and with it into an index.
    """
    check_suffix(out)
    for name, file in (("data", data), ("base", base), ("query", query), ("labels", labels)):
        if file is not None and Path(file).exists() and Path(out).exists() and Path(out).samefile(file):
            raise ValueError(f"out is {str(out)!r}, which is {name} itself; give another file")
    if carry and Path(out).suffix != ".parquet":
        raise ValueError(f"carry is given and out is {str(out)!r}; only a .parquet file holds further columns")
    carry = check_carry(data, carry, alone=base is None and query is None)
    from lbhash.hasher import load_hasher

    hasher = load_hasher(model)
    columns = carried_columns(data, carry, hasher, images)
    part = model_part(
        hasher,
        data,
        split,
        base=base,
        query=query,
        labels=labels,
        protocol=protocol,
        split_seed=split_seed,
        images=images,
    )
    codes = hasher.encode_part(part)
    further = None if columns is None else columns.take(part.rows)
    write_codes(out, CodeTable(codes, hasher.bits, part.rows, part.labels, hasher.model_.fingerprint(), further))
    return {"codes": len(codes), "bits": hasher.bits, "bytes": codes.nbytes, "split": split, "out": str(out)}


def model_part(
    hasher: Hasher,
    data: str | Path,
    split: str,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int | None = None,
    images: ImageOptions | None = None,
    stream: bool = False,
) -> Part:
    """A split of a data set, or ``all`` the rows of a file, as a trained model is to encode it (``encode_file``).

    Args:
        hasher: the model.
        data: a data set.
        split: train, base or query, or all the rows of one file.
        base: as of ``load_dataset``.
        query: as of ``load_dataset``.
        labels: as of ``load_dataset``.
        protocol: that of the training where it is not given.
        split_seed: that of the training where it is not given.
        images: how pictures are embedded; by the model's own backbone, as their files' names tell, if not given.
        stream: as of ``lbhash.data.readers.read_table``, for embeddings.
    """
    images = picture_options(data, images)
    if images is not None:
        check_images_alone(base, query, labels)
        return _image_part(hasher, data, split, protocol, split_seed, images)
    files = base is not None or query is not None or Path(data).is_dir()
    if split == "all" and files:
        what = f"data is the folder {str(data)!r}" if Path(data).is_dir() else "base or query is given"
        raise ValueError(f"split is 'all' and {what}; all takes one file, and of several split must be one of them")
    if split == "all":
        table = load_table(data, labels, stream=stream)
        part = Part(table.embeddings, np.arange(len(table.embeddings)), table.labels)
    else:
        asked, seed = split_of_training(hasher, protocol, split_seed)
        protocol = protocol if files else asked
        dataset = load_dataset(data, base=base, query=query, labels=labels, protocol=protocol, seed=seed, stream=stream)
        if protocol is None and dataset.protocol not in ("flags", "files"):
            raise ValueError(
                f"split is {split!r}, and neither the model nor the data say which rows that is; "
                "give a protocol, or split all"
            )
        part = dataset.part(split)
    return with_columns(hasher, part)


def _image_part(
    hasher: Hasher, data: str | Path, split: str, protocol: str | None, split_seed: int | None, images: ImageOptions
) -> Part:
    """As ``model_part``, of pictures."""
    protocol, seed = split_of_training(hasher, protocol, split_seed)
    if split == "all":
        part = images.embed(data, hasher).part()
    elif hasher.model_.has_tuned_backbone:
        part = _tuned_part(hasher, data, split, protocol, seed, images)
    else:
        part = images.embed(data, hasher).dataset(protocol, seed).part(split)
    return with_columns(hasher, part)


def _tuned_part(
    hasher: Hasher, data: str | Path, split: str, protocol: str | None, seed: int, images: ImageOptions
) -> Part:
    """A split as a backbone embeds it that was fine-tuned, so that nothing is kept: its rows, and no others."""
    from lbhash.training.images import check_pictures, embed_pictures

    table, backbone = images.open(data, hasher)
    kept = check_pictures(table, damaged=images.damaged, progress=True)
    rows = split_images(table, kept, protocol, seed)[1][split]
    assert table.labels is not None
    embeddings = np.zeros((len(table), backbone.dim), np.float32)  # of which the other rows take no memory
    embeddings[rows] = embed_pictures(backbone, table, rows, progress=True)
    return Part(embeddings, rows, table.labels[rows])


def split_of_training(hasher: Hasher, protocol: str | None, seed: int | None) -> tuple[str | None, int]:
    """Protocol and seed of a split: those of the model's training where they are not given.

    A training whose data said their splits themselves had no protocol that others could be drawn by.
    """
    about = hasher.model_.about
    if protocol is None and about.get("protocol") not in ("flags", "files"):
        protocol = about.get("protocol")
    return protocol, about.get("split seed", 0) if seed is None else seed


def with_columns(hasher: Hasher, part: Part) -> Part:
    """A split whose multi-hot labels have as many columns as those of the model's training."""
    return widened(part, hasher.model_.about.get("label columns", len(hasher.classes_)))


def open_embedded(
    data: str | Path,
    images: ImageOptions | None,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int = 0,
) -> tuple[Dataset, dict[str, Any]]:
    """Train, base and query as embeddings, and what a model is to remember of how they were made.

    Args:
        data: a data set of embeddings, or of pictures, which a backbone embeds that stays as it is.
        images: how pictures are embedded; ``None`` for embeddings.
        base: as of ``lbhash.data.load_dataset``.
        query: as of ``lbhash.data.load_dataset``.
        labels: as of ``lbhash.data.load_dataset``.
        protocol: what draws the splits.
        split_seed: of the draw.

    Raises:
        ValueError: ``data`` are pictures, and there is no backbone; or files of embeddings are given beside them.
    """
    if images is not None:
        check_images_alone(base, query, labels)
        embedded = images.embed(data)
        return embedded.dataset(protocol, split_seed), {"backbone": embedded.backbone, **images.about(embedded.images)}
    if holds_pictures(data):
        raise ValueError(f"data is {str(data)!r}, which holds pictures; give what embeds them (--backbone FOLDER)")
    return load_dataset(data, base=base, query=query, labels=labels, protocol=protocol, seed=split_seed), {}


def check_images_alone(base: str | Path | None, query: str | Path | None, labels: str | Path | None) -> None:
    """Raise ``ValueError`` where files of embeddings are given beside pictures."""
    for name, value in (("base", base), ("query", query), ("labels", labels)):
        if value is not None:
            raise ValueError(
                f"{name} is {str(value)!r} and the data are pictures, which are one file or folder that says itself "
                "what their labels and splits are"
            )


def evaluate_files(
    queries: str | Path | None,
    base: str | Path | None,
    *,
    deephash: str | Path | None = None,
    query_labels: str | Path | None = None,
    base_labels: str | Path | None = None,
    bits: int | None = None,
    **options: Any,
) -> Report:
    """Evaluate one file of codes as queries against another as base.

    Args:
        queries: a file of codes (``lbhash.codes.io.read_codes``).
        base: as ``queries``.
        deephash: a folder of DeepHash-pytorch, in the place of both.
        query_labels: an ``.npy`` with the queries' labels, where their file has none.
        base_labels: as ``query_labels``.
        bits: length of a code, for files that do not say.
        options: of ``lbhash.evaluate``.
    """
    if deephash is not None:
        if not (queries is base is query_labels is base_labels is None):
            raise ValueError("deephash is a folder with queries, base and labels of its own; give it alone")
        left, right = read_deephash(deephash)
    elif queries is None or base is None:
        missing = "queries" if queries is None else "base"
        raise ValueError(f"{missing} is missing; give queries and base, two files of codes, or deephash, a folder")
    else:
        left = read_codes(queries, "queries", bits=bits, labels=query_labels)
        right = read_codes(base, "base", bits=bits, labels=base_labels)
    _check_same_model(left.bits, left.model, right, "queries")
    for table, name in ((left, "queries"), (right, "base")):
        if table.labels is None:
            raise ValueError(f"{name} has no labels; an evaluation needs them")
    return evaluate(left.codes, left.labels, right.codes, right.labels, bits=left.bits, **options)


def _check_same_model(bits: int, fingerprint: str, base: CodeTable, name: str) -> None:
    if bits != base.bits:
        raise ValueError(f"base holds codes of {base.bits} bits and {name} has {bits}; encode both with one model")
    if fingerprint and base.model and fingerprint != base.model:
        raise ValueError(
            f"base was encoded by model {base.model} and {name} by {fingerprint}; encode both with one model"
        )
