"""Train on a data set, evaluate the codes, and save model and metrics in a folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import pack_outputs
from lbhash.data import Dataset
from lbhash.evaluation.neighbors import evaluate_neighbors
from lbhash.evaluation.recognition import classifier_predict
from lbhash.hasher import encode_split, fit_split, name_of, outputs_split
from lbhash.losses.registry import PAPER
from lbhash.pipeline.embeddings import ImageOptions, TextOptions
from lbhash.pipeline.figures import figures_of
from lbhash.pipeline.splits import open_embedded
from lbhash.training.settings import grouped, side_by_side
from lbhash.utils.files import write_json
from lbhash.utils.labels import class_array
from lbhash.utils.paths import check_folder
from lbhash.utils.system import peak_memory, usable_cores
from lbhash.utils.table_files import is_label_table
from lbhash.utils.validation import check_int

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

MOST_QUERIES = 1000
"""The most queries to evaluate for data without labels."""


def train_files(
    data: str,
    out: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    embedding_column: str | None = None,
    label_column: str | None = None,
    split_seed: int = 0,
    images: ImageOptions | None = None,
    texts: TextOptions | None = None,
    damaged: str = "refuse",
    freeze: bool = False,
    threads: int | None = None,
    **training: Any,
) -> dict[str, Any]:
    """Open data and train on it (``train_model``); on images, all methods except coders fine-tune the backbone.

    The arguments are the options of ``lbhash train``. With ``freeze``, images are embedded once and the backbone is not
    fine-tuned. By default, ``threads`` is 1 for embeddings, and all cores (divided among processes) for fine-tuning.
    """
    # Check now: embedding images or texts may take hours.
    check_out(out, resume=training.get("resume", False), overwrite=training.get("overwrite", False))
    if freeze or images is None or images.backbone is None:
        files = {"base": base, "query": query, "labels": labels}
        files |= {"embedding_column": embedding_column, "label_column": label_column}
        dataset, metadata = open_embedded(
            data, images, **files, texts=texts, protocol=protocol, split_seed=split_seed, damaged=damaged
        )
        columns_of_data = ["embedding_column", *([] if is_label_table(labels) else ["label_column"])]
        metadata |= {name: files[name] for name in columns_of_data if files[name] is not None}
        threads = 1 if threads is None else threads
        return train_model(dataset, out, split_seed=split_seed, metadata=metadata, threads=threads, **training)
    from lbhash.models.backbone import check_backbone_name

    training["backbone"] = check_backbone_name(images.backbone)
    threads = cores_of_each_process() if threads is None else threads
    dataset = _checked_images(data, protocol, split_seed, images, training)
    return train_model(dataset, out, split_seed=split_seed, threads=threads, **training)


def _checked_images(
    data: str, protocol: str | None, split_seed: int, images: ImageOptions, training: dict[str, Any]
) -> Dataset:
    """Return a data set of images after checking that they can be decoded."""
    from lbhash.data.images import load_images
    from lbhash.data.images.corrupt import check_images
    from lbhash.training.coders import coder_of
    from lbhash.training.distributed import is_main_process
    from lbhash.training.prepare import check_partly

    table = load_images(data)
    dataset = table.dataset(protocol, split_seed)
    dataset.check_several_classes()  # before the work of decoding
    if coder_of(training.get("method")) is None:
        check_partly(dataset.train)
    workers = training.get("workers", 0)
    table = check_images(table, damaged=images.damaged, workers=workers, progress=is_main_process())
    return table.dataset(protocol, split_seed)


def cores_of_each_process() -> int:
    """Return the number of cores for each process that torchrun started on this machine; all cores without torchrun."""
    from lbhash.training.distributed import from_torchrun

    return max(1, usable_cores() // from_torchrun("LOCAL_WORLD_SIZE", 1))


def train_model(
    dataset: Dataset,
    out: str | Path,
    *,
    top_k: int | None = None,
    split_seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    baselines: bool = True,
    metadata: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train on a data set, evaluate its queries against its base, write the model folder, and return the metrics.

    If several processes train, only the first one evaluates, writes and returns metrics; the others return an empty
    dict.

    Each class of the train split gets a center, and the model stores the class's name. Classes that occur only in base
    or query have no center.

    Without labels, a method that needs none is fitted: the named one, or the best of several (``Hasher.fit``). The
    metrics are then those of neighbors (``evaluate_neighbors``). If only some rows lack labels, they are left out of
    the evaluation; a message says how training uses them.

    The folder gets the model's files, ``metrics.json``, ``logs/`` and ``checkpoints/``. ``top_k`` is the k of mAP@k;
    None ranks the whole base. ``metadata`` is stored with the model, such as its ``backbone``. The settings are those
    of ``Hasher``. With ``baselines``, the metrics of embeddings include alternatives to the codes
    (``lbhash.pipeline.alternatives``).
    """
    from lbhash.hasher import Hasher
    from lbhash.training.coders import coder_of
    from lbhash.training.distributed import is_main_process

    folder = Path(out)
    resumable = check_out(out, resume=resume, overwrite=overwrite)
    if top_k is not None:
        check_int(top_k, "top_k", 1, len(dataset.base.labeled()), "the size of the base")
    hasher = Hasher(**grouped(progress=progress, **settings))
    if is_main_process():
        _tell_unlabeled(dataset, network=coder_of(hasher.method) is None)
    if resume and not resumable and is_main_process():
        print(f"{out} has no checkpoint to resume from; training begins anew", file=sys.stderr)
    started = time.perf_counter()
    part, classes = (dataset.train, np.arange(0)) if dataset.train.labels is None else dataset.train.compact()
    dataset.check_several_classes()
    fit_split(hasher, part, len(classes), directory=folder, resume=resume)
    seconds = time.perf_counter() - started
    if not is_main_process():
        return {}
    training = None if hasher.trained_ is None else asdict(hasher.trained_)
    given = side_by_side(hasher)
    unsaid = given.recipe is None and any(getattr(given, name) is None for name in PAPER)
    if training and unsaid and hasher.model_.metadata["recipe"] == "paper" and not part.needs_backbone:
        print(f"{name_of(hasher)} has no settings of its own: trained with those of --recipe paper", file=sys.stderr)
    # Remove the speed, so a resumed run has the same metrics as an uninterrupted one.
    rate = None if training is None else training.pop("rows_per_second")
    source = {"data": dataset.name, "protocol": dataset.protocol}
    metrics = {
        **source,
        "method": name_of(hasher),
        "choice": [one._asdict() for one in hasher.choice_],
        "bits": hasher.bits,
        "seed": hasher.seed,
        "epochs": None if training is None else hasher.epochs,
        "train_seconds": round(seconds, 2),
        "training": training,
        "posterior": hasher.model_.metadata.get("posterior"),
        **(_of_images(rate) if dataset.train.needs_backbone else {}),
        **_figures(dataset, hasher, classes, top_k, seconds if baselines else None, "embedding" if progress else ""),
    }
    hasher.classes_ = class_array([dataset.class_names[one] for one in classes.tolist()])
    hasher.model_.metadata |= {**source, "split_seed": split_seed, **(metadata or {})}
    hasher.save_pretrained(folder)
    write_json(folder / "metrics.json", metrics)
    return metrics


def _figures(
    dataset: Dataset,
    hasher: Hasher,
    classes: npt.NDArray[np.int64],
    top_k: int | None,
    seconds: float | None,
    bar: str,
) -> dict[str, Any]:
    """Return the metrics of the codes and, unless ``seconds`` is None, of alternatives to them."""
    new: Any = dataset.base
    recognized = None
    if dataset.train.labels is None:  # evaluate by the embeddings' neighbors
        figures = _neighbors(dataset, hasher, bar)
    else:
        asked = dataset.query.labeled()
        outputs = outputs_split(hasher, asked)
        new_base = ~dataset.trained_base()
        figures = figures_of(dataset, new_base, hasher, outputs, top_k)
        if figures["new_rows"] is not None:
            new = new.where(new_base)
        new = new.labeled()
        if hasher.model_.classifier is not None and not dataset.multi_label and np.isin(asked.labels, classes).any():
            found = classes[classifier_predict(pack_outputs(outputs), hasher.model_.classifier)]
            recognized = float(np.mean(found == asked.labels))
    if seconds is not None and not new.needs_backbone:
        from lbhash.pipeline.alternatives import alternatives

        figures["alternatives"] = alternatives(dataset, hasher, new, seconds, top_k)
    return figures | {"classifier_accuracy": recognized}  # of the method's own classifier, if any


def check_out(out: str | Path, *, resume: bool, overwrite: bool) -> bool:
    """Return whether training into ``out`` resumes a checkpoint; ``ValueError`` if ``out`` is already in use."""
    from lbhash.models.folder import check_replaces_ours
    from lbhash.training.checkpoints import has_checkpoint

    check_folder(out, "out")
    check_replaces_ours(out, "out")
    begun = has_checkpoint(Path(out))
    resumable = resume and begun
    if (Path(out) / "config.json").exists() and not overwrite and not resumable:
        unresumed = " and no checkpoint to resume from" if resume else ""
        what = f"which already holds a model{unresumed}"
        raise ValueError(f"out is {str(out)!r}, {what}; give another folder, or --overwrite")
    if begun and not (resume or overwrite):
        what = "which holds the checkpoint of an unfinished training"
        raise ValueError(
            f"out is {str(out)!r}, {what}; go on with --resume, start again with --overwrite, or give another folder"
        )
    return resumable


def _tell_unlabeled(dataset: Dataset, *, network: bool) -> None:
    """Print on standard error how many rows have no label, and what is done with them."""
    from lbhash.training.partial import few_labels

    for name in ("train", "base", "query") if network else ("base", "query"):
        split = dataset.split(name)
        if missing := len(split) - len(split.labeled()):
            done = "not evaluated"
            if name == "train":
                done = "trained on with guessed ones" if few_labels(split) else "left out of the training"
            print(f"{missing:,} of {len(split):,} {name} rows have no label: they are {done}", file=sys.stderr)


def _neighbors(dataset: Dataset, hasher: Hasher, bar: str) -> dict[str, Any]:
    """Return the share of the embeddings' neighbors that the codes find, for a sample of queries."""
    backbone = hasher.backbone_ if dataset.base.needs_backbone else None
    few, workers = dataset.query.subsample(MOST_QUERIES), side_by_side(hasher).workers
    asked, held = (part.embedded(backbone, workers=workers, progress=bar) for part in (few, dataset.base))
    outputs, codes = outputs_split(hasher, asked), encode_split(hasher, held)
    rows = [part.take(slice(None)) for part in (asked, held)]
    return evaluate_neighbors(pack_outputs(outputs), rows[0], codes, rows[1], query_outputs=outputs).as_dict()


def _of_images(rate: float | None) -> dict[str, Any]:
    """Return the additional metrics of fine-tuning: its speed, and its peak memory."""
    import torch

    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
    speed = None if rate is None else round(rate, 1)
    return {"images_per_second": speed, "peak_bytes": peak_memory(), "peak_gpu_bytes": gpu}
