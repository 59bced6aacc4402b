"""``lbhash train``: a model and its evaluation, in a folder."""

from __future__ import annotations

import math
import os
import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbhash.cli.commands.options import (
    BaseFile,
    ClassList,
    Damaged,
    DamagedImages,
    Data,
    Images,
    Json,
    Labels,
    Layout,
    Protocol,
    QueryFile,
    SplitSeed,
    new_image_options,
    print_json,
)

if TYPE_CHECKING:
    from lbhash.data import Dataset
    from lbhash.data.images import ImageDataset
    from lbhash.training.images import Augmentation

Backbone = Annotated[
    str | None,
    typer.Option(help="For images: a folder or Hub id of a vision model of transformers, which is fine-tuned."),
]


class BatchNorm(str, Enum):
    """The batch normalization of a backbone that is fine-tuned."""

    freeze = "freeze"
    train = "train"


class LogKind(str, Enum):
    """Where the values of each epoch go."""

    csv = "csv"
    tensorboard = "tensorboard"


class RateSchedule(str, Enum):
    """How the learning rate falls."""

    step = "step"
    cosine = "cosine"
    linear = "linear"
    constant = "constant"


class FloatKind(str, Enum):
    """What numbers the model computes with in training."""

    float32 = "32"
    bfloat16 = "bf16"
    float16 = "16"


class Criterion(str, Enum):
    """What an epoch is judged by."""

    ratio = "ratio"
    map = "map"
    loss = "loss"


def train(
    out: Annotated[Path, typer.Option(help="Folder of the model; it must not hold one yet.")],
    data: Data = "digits",
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Protocol = None,
    split_seed: SplitSeed = 0,
    backbone: Backbone = None,
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Leave the backbone as it is: embed once, train the head alone.")
    ] = False,
    image_size: Annotated[
        int | None,
        typer.Option(help="Side of the squares that the backbone sees; its preprocessing's own if not given."),
    ] = None,
    batch_norm: Annotated[
        BatchNorm | None,
        typer.Option(help="Normalize by the backbone's own statistics, the default, or learn them from large batches."),
    ] = None,
    augment: Annotated[bool, typer.Option(help="Crop, flip and recolor the training images at random.")] = True,
    crop_scale: Annotated[
        float | None, typer.Option(help="The least share of an image's area that a crop keeps; 0.5 if not given.")
    ] = None,
    flip: Annotated[
        float | None, typer.Option(help="Probability that left and right are exchanged; 0.5 if not given.")
    ] = None,
    jitter: Annotated[
        float | None,
        typer.Option(help="By how much brightness, contrast and saturation change at most; 0.2 if not given."),
    ] = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = Damaged.refuse,
    method: Annotated[str, typer.Option(help="The host method (see 'lbhash methods').")] = "csq",
    guided: Annotated[bool, typer.Option(help="Add the guidance.")] = True,
    guidance_weight: Annotated[
        str | None,
        typer.Option(help="A number, or 'balanced' against the method's own loss; 1, the paper's, if not given."),
    ] = None,
    bits: Annotated[int, typer.Option(help="Length of a code, 1 to 1,024.")] = 64,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows.")] = 30,
    batch_size: Annotated[int, typer.Option(help="Rows in a step; in each process where there are several.")] = 64,
    lr: Annotated[float, typer.Option(help="Adam's learning rate.")] = 1e-3,
    schedule: Annotated[
        RateSchedule, typer.Option(help="How the learning rate falls; step, the paper's, to a tenth every 10 epochs.")
    ] = RateSchedule.step,
    warmup: Annotated[float, typer.Option(help="Epochs over which the learning rate rises first.")] = 0.0,
    backbone_lr: Annotated[
        float | None, typer.Option(help="Learning rate of a backbone that is fine-tuned; a tenth of --lr if not given.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Width of the head's hidden layer; 0 for a linear head.")] = 1024,
    dropout: Annotated[float, typer.Option(help="Of the head's inputs in training.")] = 0.5,
    centers: Annotated[
        str, typer.Option(help="Arranged by what is confused, or a kind of class centers (see 'lbhash centers').")
    ] = "arranged",
    seed: Annotated[int, typer.Option(help="Same seed, same machine: the same codes.")] = 0,
    monitor: Annotated[
        Criterion | None,
        typer.Option(help="Keep the epoch that is best by the validation rows' ratio or mAP, or the training loss."),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="End after so many epochs without a better one; by the ratio if not said.")
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Share of each class's training rows that validate; 0.1 if a monitor needs it, else 0."),
    ] = None,
    at: Annotated[int | None, typer.Option(help="Evaluate mAP at this rank; the whole base where not given.")] = None,
    log: Annotated[LogKind, typer.Option(help="Log of the epochs, under OUT/logs.")] = LogKind.csv,
    device: Annotated[str, typer.Option(help="auto, cpu, gpu …")] = "auto",
    threads: Annotated[
        int | None,
        typer.Option(help="Of PyTorch while it trains on a CPU; 1 for embeddings, and as many as cores for images."),
    ] = None,
    precision: Annotated[
        FloatKind, typer.Option(help="Of the model in training: 32, bf16 or, on a GPU, 16 (mixed precision).")
    ] = FloatKind.float32,
    accumulate: Annotated[int, typer.Option(help="Batches whose gradients are averaged for a step.")] = 1,
    devices: Annotated[
        int, typer.Option(help="Processes that train together on each machine; torchrun says it by itself.")
    ] = 1,
    nodes: Annotated[int, typer.Option(help="Machines that train together.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes that read and prepare the training rows ahead.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from OUT's checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in OUT.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model, evaluate it, and leave both in a folder."""
    from lbhash.data.images import image_dataset
    from lbhash.pipeline.splits import check_images_alone, open_embedded
    from lbhash.pipeline.train import train_model
    from lbhash.training import is_main_process

    if freeze and backbone is None:
        raise ValueError("freeze is given without a backbone; there is nothing to freeze")
    options = new_image_options(backbone, layout, images, class_list, damaged)
    about: dict[str, Any] = {}
    check_tuning_options(
        backbone,
        freeze,
        {"backbone-lr": backbone_lr, "image-size": image_size, "batch-norm": batch_norm and batch_norm.value}
        | {"crop-scale": crop_scale, "flip": flip, "jitter": jitter, "no-augment": None if augment else True},
    )
    tuning: dict[str, Any] = {}
    loaded: Dataset | ImageDataset
    if options is not None and not freeze:
        from lbhash.models.backbone import check_backbone_name
        from lbhash.training.images import check_images

        check_images_alone(base, query, labels)
        tuning = {
            "backbone": check_backbone_name(str(backbone)),
            "image_size": image_size,
            "batch_norm": (batch_norm or BatchNorm.freeze).value,
            "augment": augmentation(augment, crop_scale, flip, jitter),
        }
        threads = cores(devices) if threads is None else threads
        table = options.table(data)
        kept = check_images(table, damaged=damaged.value, workers=workers, progress=is_main_process())
        loaded, about = image_dataset(table, kept, protocol, split_seed), options.metadata(table)
    else:
        loaded, about = open_embedded(
            data, options, base=base, query=query, labels=labels, protocol=protocol, split_seed=split_seed
        )
    metrics = train_model(
        loaded,
        out,
        at=at,
        split_seed=split_seed,
        log=log.value,
        resume=resume,
        overwrite=overwrite,
        method=method,
        guided=guided,
        guidance=guidance_options(guided, guidance_weight),
        bits=bits,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        schedule=schedule.value,
        warmup=warmup,
        backbone_lr=backbone_lr,
        hidden=hidden,
        dropout=dropout,
        centers=centers,
        seed=seed,
        monitor=None if monitor is None else monitor.value,
        patience=patience,
        validation=validation,
        device=device,
        threads=1 if threads is None else threads,
        precision=precision.value,
        accumulate=accumulate,
        devices=devices,
        nodes=nodes,
        workers=workers,
        about=about,
        **tuning,
    )
    if not metrics:  # not the first of several processes
        return
    if as_json:
        print_json(metrics)
        return
    from lbhash.cli.tables import print_metrics

    print_metrics([metrics], title=f"{loaded.name}, {bits} bits")
    typer.echo(f"model, metrics.json and logs are in {out}")
    print_training(metrics["training"])
    given = {"--model": out, "--data": data, "--base": base, "--query": query, "--labels": labels}
    given |= {
        "--backbone": backbone if freeze else None,
        "--layout": layout,
        "--images": images,
        "--class-list": class_list,
    }
    given["--damaged"] = damaged.value if damaged is not Damaged.refuse else None
    files = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    typer.echo(f"next: lbhash encode {shlex.join(files)} --split base --out base.parquet")


def guidance_options(guided: bool, weight: str | None) -> dict[str, float | str] | None:
    """The options of the guidance; raises ``ValueError`` for a weight that is none, or of no guidance."""
    from lbhash.losses.guided import BALANCED

    if weight is None:
        return None
    if not guided:
        raise ValueError(f"guidance-weight is {weight!r}, and --no-guided is given; leave one out")
    if weight == BALANCED:
        return {"weight": weight}
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"guidance-weight is {weight!r}; it must be a finite number or {BALANCED!r}")
    return {"weight": number}


def check_tuning_options(backbone: str | None, freeze: bool, given: dict[str, Any]) -> None:
    """Raise ``ValueError`` where an option is given that is for a backbone that is fine-tuned, and none is.

    Args:
        backbone: what images are for.
        freeze: whether it stays as it is.
        given: the options by name; ``None`` where one is not given.
    """
    for name, value in given.items():
        if value is not None and (freeze or backbone is None):
            why = "with --freeze" if freeze else "without a backbone"
            said = "given" if value is True else value
            raise ValueError(f"{name} is {said} {why}; it is for a backbone that is fine-tuned")


def augmentation(
    augment: bool, crop_scale: float | None, flip: float | None, jitter: float | None
) -> Augmentation | bool:
    """What the options say of the augmentation, ``False`` for none."""
    from lbhash.training.images import Augmentation

    given = {"crop-scale": crop_scale, "flip": flip, "jitter": jitter}
    if not augment:
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is {value} with --no-augment; leave one of the two out")
        return False
    if crop_scale is not None and not 0 < crop_scale <= 1:
        raise ValueError(f"crop-scale is {crop_scale}; it must be above 0 and up to 1")
    if jitter is not None and not 0 <= jitter <= 1:
        raise ValueError(f"jitter is {jitter}; it must be from 0 to 1")
    said: dict[str, Any] = {} if crop_scale is None else {"crop": (crop_scale, 1.0)}
    said |= {} if flip is None else {"flip": flip}
    said |= {} if jitter is None else dict.fromkeys(("brightness", "contrast", "saturation"), jitter)
    return Augmentation(**said)


def cores(processes: int = 1) -> int:
    """The cores for each of so many processes on this machine, or of those that torchrun started."""
    from lbhash.utils.system import usable_cores

    return max(1, usable_cores() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", processes))))


def print_training(training: dict[str, Any]) -> None:
    """Say which epoch's weights were kept, where one was chosen."""
    if training["monitor"] is None:
        return
    if training["value"] is None:
        typer.echo(f"no epoch had a {training['monitor']} to choose it by; the weights are the last one's")
        return
    stopped = ", and training ended early" if training["stopped_early"] else ""
    typer.echo(
        f"epoch {training['epoch']} of {training['epochs']} (from 0) was kept: {training['monitor']} "
        f"{training['value']:.4g}{stopped}"
    )
