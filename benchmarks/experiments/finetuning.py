"""Backbones that learn from images: methods, plain and guided, side by side. Writes a table and its learning curves.

    python -m benchmarks.experiments.finetuning --data IMAGES --backbone FOLDER --methods csq --out page.md

Each run is a model folder under ``--runs``, as ``lbhash train`` leaves it; runs that are there are not run again, and
one that was interrupted goes on from its last epoch. In the table "over ties" is the range of mAP over orders of tied
codes, "lift" the mAP minus the plain host's, in points, and "at 0" the share of the relevant base codes that are equal
to the query's. "ratio" is D_inter / D_intra of the base's codes, and "at 99.9 %" the same with D_intra at that
percentile. The curves are of the training images that ``--validation`` holds out.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from benchmarks.experiments.shared import markdown, save

from lbhash.centers.targets import ARRANGED
from lbhash.data.images import load_images
from lbhash.pipeline.train import train_model
from lbhash.reproduce.runs.experiment_settings import LR, METHODS
from lbhash.training.checkpoints import has_checkpoint
from lbhash.training.epoch_metrics import VALIDATION_SHARE
from lbhash.training.images import Augmentation, check_images
from lbhash.utils.files import write_text
from lbhash.utils.formatting import number
from lbhash.utils.parallel import in_processes

PLAIN = "plain"
RECIPES = {
    PLAIN: ("", "none", "best"),
    "paper": ("_d", "surrogate", "best"),
    "arranged": ("_d-arranged", "surrogate", ARRANGED),
    "bits": ("+bits", "bits", ARRANGED),
}
"""What is done with a host: the end of the run's name, the pull and the class centers."""


def execute(data: str, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate one run, from where it was interrupted."""
    dataset = check_images(load_images(data)).dataset()
    again = {"resume": has_checkpoint(out), "progress": False}
    fixed = {"augment": Augmentation(), "lr": LR, "schedule": "cosine", "device": "cpu"}
    monitor = "map" if settings["validation"] else None
    return train_model(dataset, out, **again, **fixed, monitor=monitor, **settings)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", required=True, help="images with splits of their own, a file or a folder")
    made.add_argument("--backbone", required=True, help="a folder of a vision model of transformers")
    made.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    said = "what is done with each host; a lift is that over the plain one"
    made.add_argument("--recipes", nargs="+", choices=RECIPES, default=[PLAIN, "paper"], help=said)
    made.add_argument("--bits", type=int, default=64)
    made.add_argument("--image-size", type=int, default=96)
    made.add_argument("--epochs", type=int, default=30)
    made.add_argument("--backbone-lr", type=float, default=1e-4)
    said = "share of the training images; 0 for none"
    made.add_argument("--validation", type=float, default=VALIDATION_SHARE, help=said)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    made.add_argument("--runs", type=Path, default=Path("runs/finetuning"), help="folder of the runs")
    made.add_argument("--out", type=Path, required=True, help="the table; its picture is beside it")
    return made


def run_missing(given: argparse.Namespace) -> dict[tuple[str, str], Path]:
    """Run what has not ended, each in a process of its own, and return the folders by method and recipe."""
    names = ("bits", "image_size", "epochs", "backbone_lr", "validation", "seed")
    common = {name: getattr(given, name) for name in names}
    marks = "-".join(f"{name}{value:g}" for name, value in common.items())
    folders, tasks = {}, {}
    for method, recipe in product(given.methods, given.recipes):
        suffix, pull, centers = RECIPES[recipe]
        folders[method, recipe] = folder = given.runs / f"{Path(given.data).stem}-{method}{suffix}-{marks}"
        if not (folder / "metrics.json").exists():  # which is written last
            own = {"method": method, "pull": pull, "centers": centers, "backbone": given.backbone}
            tasks[method + suffix] = given.data, folder, common | own
    for name, metrics in in_processes(tasks, execute, given.workers):
        print(f"{name}: mAP {metrics['map']:.4f}", file=sys.stderr, flush=True)
    return folders


def scores(results: dict[tuple[str, str], dict[str, Any]]) -> str:
    """Return how good the codes are, a row a run."""
    lines = []
    for (method, recipe), result in results.items():
        host = results.get((method, PLAIN))
        line = {"method": method + RECIPES[recipe][0], "mAP": f"{result['map']:.4f}"}
        line["over ties"] = f"{result['map_worst']:.4f}–{result['map_best']:.4f}"
        line["lift"] = f"{100 * (result['map'] - host['map']):+.1f}" if host and recipe != PLAIN else ""
        line["at 0"] = number(result["curve"]["recall"][0], 3)
        line["D_inter"], line["D_intra"] = (number(result["bound"][name]) for name in ("inter", "intra"))
        line["ratio"], line["at 99.9 %"] = (number(result[name]["ratio"], 3) for name in ("bound", "bound_99.9"))
        line["k-NN"], line["minutes"] = number(result["knn_accuracy"], 4), f"{result['train_seconds'] / 60:.0f}"
        lines.append(line)
    return markdown(pd.DataFrame(lines))


def draw(folders: dict[tuple[str, str], Path]) -> sns.FacetGrid:
    """Draw mAP and ratio by epoch; a method has a color, and a recipe a line."""
    titles = {"validation_map": "mAP of the validation images", "validation_ratio": "D_inter / D_intra of the same"}
    logs = [
        pd.read_csv(folder / "logs" / "metrics.csv")[list(titles)].assign(method=method, recipe=recipe)
        for (method, recipe), folder in folders.items()
    ]
    every = pd.concat(logs).rename(columns=titles).rename_axis("epoch, from 0").reset_index()
    shown = every.melt(["epoch, from 0", "method", "recipe"], var_name="figure", value_name="value")
    look = {"kind": "line", "height": 3.6, "aspect": 1.3, "facet_kws": {"sharey": False}}
    grid = sns.relplot(shown, x="epoch, from 0", y="value", hue="method", style="recipe", col="figure", **look)
    grid.axes.flat[1].set_yscale("symlog", linthresh=1)  # the ratio is 0 where classes share a code, and h at most
    return grid.set_titles("{col_name}").set_ylabels("")


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table and the picture."""
    given = parser().parse_args(arguments)
    folders = run_missing(given)
    text = scores({run: json.loads((folder / "metrics.json").read_text()) for run, folder in folders.items()})
    print(text)
    write_text(given.out, text + "\n")
    if given.validation:
        save(draw(folders), given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
