"""Backbones that learn from images: methods, plain and guided, side by side. Writes a page and its learning curves.

    python -m benchmarks.experiments.finetuning --data IMAGES --backbone FOLDER --methods csq --out page.md

Each run is a model folder under ``--runs``, as ``lbhash train`` leaves it; runs that are there are not run again, and
one that was interrupted goes on from its last epoch.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.experiments.page import markdown_table

from lbhash.centers.targets import ARRANGED
from lbhash.reproduce.results import Regression
from lbhash.reproduce.runs.experiment_settings import LR, METHODS
from lbhash.training.epoch_metrics import VALIDATION_SHARE
from lbhash.utils.files import replacing, write_text
from lbhash.utils.formatting import number
from lbhash.utils.parallel import in_processes
from lbhash.utils.plotting import new_figure, palette, whole_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lbhash.data import Dataset
    from lbhash.data.images import ImageSplit

INTRO = """# Fine-tuning

{methods}, {recipes}, {bits} bits; class centers that are not arranged are of the kind "best".
{backbone} learns together with the head (a hidden layer of 1,024) from {train:,} training images of {data}
at {size} × {size} pixels: {epochs} epochs, batch 64, Adam at {lr:g} for the head and {backbone_lr:g} for the backbone,
both falling along a cosine; the default crops, flips and colors; seed {seed}. One seed:
differences of a point or so mean little.

Made by

    {command}

- mAP is of {query:,} queries on a base of {base:,}, in expectation over a random order of tied codes.
- "lift" is the mAP minus the plain host's, in points.
- "at 0" is the share of the relevant base codes that are equal to the query's.
- "ratio" is D_inter / D_intra of the base's codes, minimum over maximum; "at 99.9 %" with D_intra at that percentile.
- "k-NN" is the accuracy of a vote of the 100 nearest base codes.
- "minutes" is the training, on one core of a machine that was running {workers} of them.

{table}
"""

WATCHED = """
## Learning curves

![mAP and ratio by epoch]({image})

A share of {share:g} of each class's training images is not trained on. Their mAP, each a query to the others,
decides which epoch is kept; their ratio is at percentiles, as `--monitor ratio` judges it.
"rank correlation" is of the two over the epochs, which are counted from 0.

{table}
"""


class Recipe(NamedTuple):
    """What is done with a host."""

    suffix: str
    """Of the run's name."""
    said: str
    pull: str
    arranged: bool
    """Whether the class centers are arranged, or of the kind "best"."""
    line: str


PLAIN = "plain"
RECIPES = {
    PLAIN: Recipe("", "plain", pull="none", arranged=False, line="--"),
    "paper": Recipe("_d", "with the paper's guidance (_d)", pull="surrogate", arranged=False, line="-"),
    "arranged": Recipe("_d-arranged", "guided to arranged centers", pull="surrogate", arranged=True, line="-."),
    "bits": Recipe("+bits", "pulled bit by bit to arranged centers", pull="bits", arranged=True, line=":"),
}


@dataclass(frozen=True)
class Run:
    """What is trained, and how."""

    method: str
    recipe: str
    bits: int
    size: int
    epochs: int
    backbone_lr: float
    validation: float
    seed: int

    @property
    def shown(self) -> str:
        """The method's name, with what is done to it."""
        return self.method + RECIPES[self.recipe].suffix

    def folder(self, data: str) -> str:
        """The name of its model folder."""
        held = "" if self.validation == VALIDATION_SHARE else f"-validation{self.validation:g}"
        rate = "" if self.backbone_lr == 1e-4 else f"-lr{self.backbone_lr:g}"
        name = f"{data}-{self.shown}-{self.bits}bits-{self.size}px-{self.epochs}epochs"
        return f"{name}{rate}{held}-seed{self.seed}"


def execute(run: Run, data: str, backbone: str, out: Path) -> dict[str, Any]:
    """Train and evaluate one run, from where it was interrupted, unless it is there."""
    from lbhash.pipeline.train import train_model
    from lbhash.training.checkpoints import has_checkpoint
    from lbhash.training.images import Augmentation

    settings = asdict(run)
    settings["image_size"] = settings.pop("size")
    recipe = RECIPES[settings.pop("recipe")]
    settings |= {"pull": recipe.pull, "centers": ARRANGED if recipe.arranged else "best"}
    return train_model(
        open_dataset(data),
        out,
        resume=has_checkpoint(out),
        progress=False,
        backbone=backbone,
        augment=Augmentation(),
        lr=LR,
        schedule="cosine",
        monitor="map" if run.validation else None,
        device="cpu",
        **settings,
    )


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="images with splits of their own, a file or a folder")
    parser.add_argument("--backbone", required=True, help="a folder of a vision model of transformers")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    said = "what is done with each host; a lift is that over the plain one"
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=[PLAIN, "paper"], help=said)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--backbone-lr", type=float, default=1e-4)
    said = "share of the training images; 0 for none"
    parser.add_argument("--validation", type=float, default=VALIDATION_SHARE, help=said)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--runs", type=Path, default=Path("runs/finetuning"), help="folder of the runs")
    parser.add_argument("--out", type=Path, required=True, help="the page; its image is beside it")
    given = parser.parse_args()
    try:
        dataset = open_dataset(given.data)
    except ValueError as error:
        parser.error(str(error))
    settings = (given.bits, given.image_size, given.epochs, given.backbone_lr, given.validation, given.seed)
    given.methods = [method for method in METHODS if method in given.methods]
    given.recipes = [recipe for recipe in RECIPES if recipe in given.recipes]
    runs = [Run(method, recipe, *settings) for method in given.methods for recipe in given.recipes]
    folders = {run: given.runs / run.folder(Path(given.data).stem) for run in runs}
    run_missing(folders, given.data, given.backbone, given.workers)
    results = {run: json.loads((folder / "metrics.json").read_text()) for run, folder in folders.items()}
    curves = {run: curve(folder) for run, folder in folders.items()} if given.validation else {}
    write_text(given.out, page(given, dataset, results, curves))
    if curves:
        with replacing(given.out.with_suffix(".png")) as temporary:
            image(curves).savefig(temporary, format="png", dpi=150)


def open_dataset(data: str) -> Dataset[ImageSplit]:
    """Train, base and query of the images, all of which must be sound."""
    from lbhash.data.images import load_images
    from lbhash.training.images import check_images

    return check_images(load_images(data)).dataset()


def is_done(folder: Path) -> bool:
    """Whether a run has ended: its metrics are written last."""
    return (folder / "metrics.json").exists()


def run_missing(folders: dict[Run, Path], data: str, backbone: str, workers: int) -> None:
    """Run those that have not ended, each in a process of its own."""
    missing = {run.shown: (run, data, backbone, folder) for run, folder in folders.items() if not is_done(folder)}
    started = time.perf_counter()
    for count, (name, metrics) in enumerate(in_processes(missing, execute, workers), start=1):
        said = f"mAP {metrics['map']:.4f}, {(time.perf_counter() - started) / 60:.0f} minutes"
        print(f"[{count}/{len(missing)}] {name}: {said}", file=sys.stderr, flush=True)


def curve(folder: Path) -> dict[str, list[float]]:
    """What an epoch was worth, by epoch: ``validation_map`` and ``validation_ratio``."""
    with (folder / "logs" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in ("validation_map", "validation_ratio")}


def page(
    given: argparse.Namespace,
    dataset: Dataset[ImageSplit],
    results: dict[Run, dict[str, Any]],
    curves: dict[Run, dict[str, list[float]]],
) -> str:
    """The page in Markdown."""
    arguments = {"data": "IMAGES", "backbone": "FOLDER", "methods": " ".join(given.methods)}
    arguments["recipes"] = " ".join(given.recipes)
    for name in ("bits", "image-size", "epochs", "backbone-lr", "validation", "seed"):
        arguments[name] = getattr(given, name.replace("-", "_"))
    command = " ".join(f"--{name} {value}" for name, value in arguments.items())
    text = INTRO.format(
        **vars(given)
        | {
            "methods": ", ".join(given.methods),
            "recipes": ", ".join(RECIPES[recipe].said for recipe in given.recipes),
            "data": dataset.name,
            "backbone": Path(given.backbone).name,
        },
        lr=LR,
        size=given.image_size,
        train=len(dataset.train),
        query=len(dataset.query),
        base=len(dataset.base),
        command=f"python -m benchmarks.experiments.finetuning {command} --out {given.out.name}",
        table=scores(results),
    )
    if not curves:
        return text
    found = epochs_table(results, curves)
    return text + WATCHED.format(image=given.out.with_suffix(".png").name, share=given.validation, table=found)


def scores(results: dict[Run, dict[str, Any]]) -> str:
    """How good the codes are, a row a run."""
    columns = ["method", "mAP", "over ties", "lift", "at 0", "D_inter", "D_intra", "ratio", "at 99.9 %", "k-NN"]
    columns += ["minutes"]
    rows = []
    hosts = {run.method: result["map"] for run, result in results.items() if run.recipe == PLAIN}
    for run, result in results.items():
        cells = [
            run.shown,
            f"{result['map']:.4f}",
            f"{result['map_worst']:.4f}–{result['map_best']:.4f}",
            f"{100 * (result['map'] - hosts[run.method]):+.1f}" if run.recipe != PLAIN and run.method in hosts else "",
            number(result["curve"]["recall"][0], 3),
            number(result["bound"]["inter"]),
            number(result["bound"]["intra"]),
            number(result["bound"]["ratio"], 3),
            number(result["bound_99.9"]["ratio"], 3),
            number(result["knn_accuracy"], 4),
            f"{result['train_seconds'] / 60:.0f}",
        ]
        rows.append(cells)
    return markdown_table(columns, rows, left=0)


def epochs_table(results: dict[Run, dict[str, Any]], curves: dict[Run, dict[str, list[float]]]) -> str:
    """The epoch that was kept and the best one by the ratio, a row a run."""
    columns = ["method", "kept epoch", "mAP", "best epoch by ratio", "its mAP", "rank correlation"]
    rows = []
    for run, course in curves.items():
        kept, scored = results[run]["training"]["epoch"], course["validation_map"]
        by_ratio = max(range(len(scored)), key=course["validation_ratio"].__getitem__)
        line = Regression.of(course["validation_ratio"], scored)
        cells = [run.shown, str(kept), f"{scored[kept]:.4f}", str(by_ratio), f"{scored[by_ratio]:.4f}"]
        rows.append([*cells, number(None if line is None else line.spearman, 3)])
    return markdown_table(columns, rows, left=0)


def image(curves: dict[Run, dict[str, list[float]]]) -> Figure:
    """mAP and ratio by epoch; a method has a color, and a recipe a line."""
    figure, axes = new_figure(10.5, 3.6, 1, 1)
    methods = list(dict.fromkeys(run.method for run in curves))
    colors = dict(zip(methods, palette(len(methods)), strict=True))
    for run, course in curves.items():
        style: dict[str, Any] = {"color": colors[run.method], "linestyle": RECIPES[run.recipe].line}
        for axis, name in zip(axes, ("validation_map", "validation_ratio"), strict=True):
            axis.plot(range(len(course[name])), course[name], label=run.shown, **style)
    for axis, label in zip(axes, ("mAP of the validation images", "D_inter / D_intra of the same"), strict=True):
        axis.set(xlabel="epoch, from 0", ylabel=label)
        whole_numbers(axis.xaxis)
    axes[1].set_yscale("symlog", linthresh=1)  # the ratio is 0 where classes share a code, and h at most
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


if __name__ == "__main__":
    main()
