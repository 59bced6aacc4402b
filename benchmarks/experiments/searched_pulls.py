"""The guidance beside a pull bit by bit, each with settings of its own: the same settings are tried for every form.

    python -m benchmarks.experiments.searched_pulls --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out FOLDER --page docs/guidance.md

HashNet and DSDH alone, with the pull "bits" and with the guidance, and CSQ, whose own loss is the pull "bits", alone
and with the guidance: 32 bits, 15 epochs, a cosine schedule, the same class centers. ``--trials`` settings are drawn
once: batch size, learning rate, dropout and the weight of the pull, which a form without a pull leaves out. Each form
tries all of them on 80 % of the training rows of every set. Its value is the mean over the sets of the mAP of the other
20 %, each row a query to all others of them. With its best setting a form is then trained on all training rows with
three seeds, and asked the data's own queries. Intervals and Holm's correction are those of ``like_for_like``.

``--page`` names a page whose part "searched-pulls" becomes the table. A run that ``--out`` has is not run again.
"""

from __future__ import annotations

import argparse
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.experiments.page import check_part, markdown_table, replace_part
from benchmarks.experiments.seeds import precision_of

from lbhash.data import hold_out
from lbhash.evaluation.held_out import score_codes
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source
from lbhash.training.confusion import confusion
from lbhash.trials.intervals import bootstrap, holm, p_value
from lbhash.utils.parallel import run_missing

PART = "searched-pulls"
FORMS = {"hashnet": ("none", "bits", "surrogate"), "dsdh": ("none", "bits", "surrogate"), "csq": ("none", "surrogate")}
"""The pulls of each method; the guidance is compared with the one before it."""
BITS, EPOCHS, SEEDS, HELD_OUT = 32, 15, 3, 0.2

Run = dict[str, Any]


def drawn(trials: int) -> list[Run]:
    """Return the settings that every form tries; the first is where the method's own settings were searched from."""
    rng = np.random.default_rng(0)
    found: list[Run] = [{"batch_size": 256, "lr": 2e-3, "dropout": 0.0, "weight": 1.0}]
    for _ in range(trials - 1):
        batch, dropout = int(rng.choice([64, 128, 256, 512])), round(float(rng.uniform(0, 0.6)), 2)
        rate, weight = np.exp(rng.uniform(np.log([3e-4, 1e-2]), np.log([1e-2, 3.0])))
        found.append(
            {"batch_size": batch, "lr": float(f"{rate:.2g}"), "dropout": dropout, "weight": float(f"{weight:.2g}")}
        )
    return found


def hasher_of(method: str, pull: str, setting: Run) -> Hasher:
    """Return what is trained with a setting."""
    given = {name: value for name, value in setting.items() if name != "weight"}
    guidance = None if pull == "none" else {"weight": setting["weight"]}
    common = {"epochs": EPOCHS, "recipe": "paper", "schedule": "cosine", "head": "bits", "device": "cpu"}
    return Hasher(BITS, method, pull=pull, guidance=guidance, **common, **given)


def try_out(method: str, pull: str, source: Source, setting: Run) -> Run:
    """Return the mAP of held-out training rows."""
    fitted, validation, classes = _parts(source)
    hasher = hasher_of(method, pull, setting)
    hasher.fit_split(fitted, classes, known_confusion=lambda: _confusion(source))
    codes = hasher.encode_split(validation)
    return {"map": score_codes(codes, validation.labels, classes, BITS, with_map=True, top_k=source.top_k()).map}


def ask(method: str, pull: str, source: Source, setting: Run) -> Run:
    """Return the average precision of each query for each seed; None for a query without a relevant row."""
    found = precision_of(hasher_of(method, pull, setting), source, range(SEEDS))
    return {"precision": [[None if np.isnan(value) else round(float(value), 6) for value in row] for row in found]}


@cache
def _parts(source: Source) -> tuple[Any, Any, int]:
    split, classes = source.training()
    return *hold_out(split, HELD_OUT, 0), len(classes)


@cache
def _confusion(source: Source) -> Any:
    fitted, _, classes = _parts(source)
    return confusion(fitted, classes)


def table(asked: dict[tuple[str, str, str], np.ndarray]) -> str:
    """Return the mAP in percent of every form, and what the guidance gains over a pull bit by bit, with intervals.

    The argument has the average precision ``[seeds, queries]`` by method, pull and data.
    """
    lines, means, pairs = [], {}, sorted({(method, data) for method, _, data in asked})
    for method, data in pairs:
        known = ~np.isnan(asked[method, "none", data]).any(axis=0)
        lift = (asked[method, "surrogate", data] - asked[method, FORMS[method][-2], data])[:, known]
        means[method, data] = 100 * bootstrap(lift)
    sure = dict(zip(pairs, holm(np.array([p_value(means[pair]) for pair in pairs])) < 0.05, strict=True))
    for method, data in pairs:
        maps = {pull: 100 * np.nanmean(asked[method, pull, data]) for pull in FORMS[method]}
        low, high = np.quantile(means[method, data], [0.025, 0.975])
        gain = maps["surrogate"] - maps[FORMS[method][-2]]
        lift = f"{gain:+.1f}±{(high - low) / 2:.1f}{' *' if sure[method, data] else ''}"
        shown = [f"{maps[pull]:.1f}" if pull in maps else "–" for pull in ("none", "bits", "surrogate")]
        lines.append([data, method, *shown, lift])
    return markdown_table(["data", "method", "alone", "pull bits", "guidance", "guidance less pull bits"], lines, 1)


def main(arguments: list[str] | None = None) -> None:
    """Search, ask, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    given = parser.parse_args(arguments)
    if given.page:
        check_part(given.page, PART)
    forms, settings = [(method, pull) for method, pulls in FORMS.items() for pull in pulls], drawn(given.trials)
    tries = {
        f"{method}-{pull}-{number:02}-{source.name}": (method, pull, source, setting)
        for number, setting in enumerate(settings)
        for (method, pull), source in product(forms, given.data)
    }
    tried = run_missing(tries, try_out, given.out, given.workers)
    best: dict[tuple[str, str], Run] = {}
    for method, pull in forms:
        values = [
            np.mean([tried[f"{method}-{pull}-{number:02}-{source.name}"]["map"] for source in given.data])
            for number in range(given.trials)
        ]
        best[method, pull] = settings[int(np.argmax(values))]
        print(f"{method}, {pull}: {100 * max(values):.1f} on held-out rows with {best[method, pull]}")
    asks = {
        f"{method}-{pull}-{source.name}": (method, pull, source, best[method, pull])
        for (method, pull), source in product(forms, given.data)
    }
    asked = run_missing(asks, ask, given.out / f"asked-{given.trials}", given.workers)
    precision = {
        (method, pull, source.name): np.array(asked[f"{method}-{pull}-{source.name}"]["precision"], float)
        for (method, pull), source in product(forms, given.data)
    }
    text = table(precision)
    print(text)
    if given.page:
        replace_part(given.page, PART, text)


if __name__ == "__main__":
    main()
