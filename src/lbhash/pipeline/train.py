"""Train on a data set, evaluate the codes, and leave model and metrics in a folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbhash.data import Dataset
from lbhash.data.images import ImageDataset
from lbhash.evaluation.recognition import classifier_predict
from lbhash.evaluation.report import evaluate
from lbhash.utils.files import check_folder, write_json
from lbhash.utils.system import peak_memory

if TYPE_CHECKING:
    pass


def train_model(
    dataset: Dataset | ImageDataset,
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

    Classes of the train split get a center each, whatever their numbers are; the model remembers these. A class that
    only base or query have is found, or not, without one.

    Args:
        dataset: train, base and query; of images, a backbone is fine-tuned.
        out: the folder: the model's files, ``metrics.json``, ``logs/`` and ``checkpoints/``.
        at: rank of the mAP; the whole base where it is not given.
        split_seed: the protocol's seed, remembered in the model.
        log: of the epochs.
        resume: go on from the folder's checkpoint.
        overwrite: replace a model that the folder holds.
        progress: show a bar.
        about: what the model is to remember besides: the ``backbone`` that made the embeddings (``Backbone.about``),
            how images were found (``ImageOptions.about``).
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
    hasher.fit_split(part, len(classes), directory=folder, resume=resume, logger=log)
    seconds = time.perf_counter() - started
    if not is_main_process():
        return {}
    training = asdict(hasher.trained_)
    rate = training.pop("rows_per_second")  # so that a resumed run has the metrics of one that was never interrupted
    query, base = hasher.encode_split(dataset.query), hasher.encode_split(dataset.base)
    report = evaluate(query, dataset.query.labels, base, dataset.base.labels, at, bits=hasher.bits)
    recognized = None
    if hasher.model_.classifier is not None and not dataset.multi_label:
        found = classes[classifier_predict(query, hasher.model_.classifier.weight.detach().numpy())]
        recognized = float(np.mean(found == dataset.query.labels))
    metrics = {
        "data": dataset.name,
        "protocol": dataset.protocol,
        "method": hasher.name,
        "bits": hasher.bits,
        "seed": hasher.seed,
        "epochs": hasher.epochs,
        "train_seconds": round(seconds, 2),
        "training": training,
        **(_of_images(rate) if isinstance(dataset, ImageDataset) else {}),
        **report.as_dict(),
        "classifier_accuracy": recognized,  # of the method's own classifier, where it has one
    }
    hasher.classes_ = classes
    hasher.model_.about |= {"data": dataset.name, "protocol": dataset.protocol, "split seed": split_seed}
    hasher.model_.about |= about or {}
    if dataset.train.labels is not None and dataset.train.labels.ndim == 2:
        hasher.model_.about["label columns"] = dataset.classes
    hasher.save_pretrained(folder)
    write_json(folder / "metrics.json", metrics)
    return metrics


def _of_images(rate: float | None) -> dict[str, Any]:
    """What the metrics of a fine-tuning have besides: the speed of training, and the most memory that was needed."""
    import torch

    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
    speed = None if rate is None else round(rate, 1)
    return {"images_per_second": speed, "peak_bytes": peak_memory(), "peak_gpu_bytes": gpu}
