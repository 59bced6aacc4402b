"""Finds each method's recommended settings, the same budget for every host and every guided form.

    python -m benchmarks.experiments.recommended --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --last tiny-imagenet=FILE --out FOLDER

Every method, plain and guided, gets the same number of settings, which Optuna proposes; the first is the same for all.
A setting is trained on 80 % of the training rows of every set of data, and its value is the mean over the sets of the
mAP of the other 20 %, each row a query to all others of them: no row of a base or a query is read. A setting whose
running mean falls below the median of those before is not trained on the sets that remain. The eight best of each
method, and the first, are then tried on the last set too, whose trainings are the longest, and the best mean over all
sets wins. Beside it stands that of the recipe "paper". Each setting leaves a JSON file, and a search that was
interrupted goes on.

    python -m benchmarks.experiments.recommended --at 64 --data tiny-imagenet=FILE --data clinc=FILE \
        --data cifar10=FILE --data mosaic=FILE --out FOLDER

asks whether these settings are good at another length too, and where training rows are in the base: the same eleven
settings for every form, on all sets, by train, base and query that are cut from the training rows (``candidates``,
``lbhash.data.validation_dataset``).
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.experiments.page import markdown_table

from lbhash.data import EmbeddingSplit, hold_out
from lbhash.evaluation.held_out import score_codes
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.losses import METHODS, settings_at
from lbhash.reproduce.runs.sources import Source
from lbhash.training.confusion import confusion
from lbhash.tuning.space import default_space, from_entry, import_optuna, starting_point, with_params
from lbhash.utils.parallel import in_processes, print_progress, read_run, write_run

HELD_OUT = 0.2

FINALISTS = 8
"""How many settings of each method, beside the first, are tried on the last set of data."""

COMMON = {
    "batch_size": {"choices": [128, 256, 512]},
    "lr": {"low": 3e-4, "high": 1e-2, "log": True},
    "dropout": {"low": 0.0, "high": 0.6},
}
"""What is searched for every method, beside its own ``search_space``."""

START = {"schedule": "cosine", "batch_size": 512, "lr": 3e-3, "dropout": 0.0}
"""The first setting of every method, with the defaults of its own."""

TRAININGS = (
    {"batch_size": 128, "lr": 1.5e-3},
    {"batch_size": 256, "lr": 2e-3},
    {"batch_size": 384, "lr": 2.5e-3},
    {"batch_size": 512, "lr": 3e-3},
)
"""What is tried at another length in the place of a method's own batch, rate and dropout, which is none here."""

TIE = 0.005
"""Of the mean mAP: settings that are so near to the best count as equal, and the first set decides between them."""

WEIGHT = {"low": 1e-3, "high": 3.0, "log": True}
"""The weights of the guidance that are searched."""


def cell_name(method: str, guided: bool) -> str:
    """Return the name of a host, or of its guided form."""
    return f"{method}_d" if guided else method


def space_of(method: str, guided: bool, bits: int) -> dict[str, Any]:
    """Return what is searched for a method, distributions of Optuna by name."""
    entries = COMMON | ({"guidance.weight": WEIGHT} if guided else {})
    space = default_space(method, guided, bits) | {name: from_entry(entry) for name, entry in entries.items()}
    del space["hidden"]
    return space


def candidates(method: str, guided: bool, bits: int) -> dict[str, dict[str, Any]]:
    """Return what is tried at another length, for ``Hasher``: trainings, each with own options and with the default.

    The last is the recipe "paper".
    """
    form = "guided" if guided else "host"
    given = METHODS[method].recommended[form]  # what the search found
    found = {} if given == "paper" else settings_at(given, bits)
    own = {name: found.pop(name) for name in ("options", "guidance") if name in found}
    default = {"guidance": {"weight": METHODS[method].guidance_weight}} if guided else {}
    trainings = {"own": found} | {str(given["batch_size"]): {**START, **given} for given in TRAININGS}
    options = {"": own, ", default options": default}
    return {a + b: {**trainings[a], **options[b]} for a, b in product(trainings, options)} | {"paper": {}}


def try_length(method: str, guided: bool, sources: list[Source], settings: argparse.Namespace) -> dict[str, Any]:
    """Return the mAP of each of ``candidates`` on each set of data."""
    file = settings.out / f"{cell_name(method, guided)}-{settings.at}bits.json"
    found: dict[str, Any] = read_run(file) if file.exists() else {}
    for name, setting in candidates(method, guided, settings.at).items():
        if name not in found:
            given = {"epochs": settings.epochs, "seed": settings.seed, "recipe": "paper", "device": "cpu"}
            hasher = Hasher(settings.at, method, guided, **given, **setting)  # with no options but the setting's
            found[name] = {source.name: _asked_map(hasher, source) for source in sources}
            write_run(file, found)
    return found


def best_of(maps: dict[str, dict[str, float]]) -> str:
    """Return the name of the setting that is taken: of those that are near the best mean, the best on the first set."""
    means = {name: np.mean(list(own.values())) for name, own in maps.items()}
    near = [name for name in maps if means[name] >= max(means.values()) - TIE]
    return max(near, key=lambda name: next(iter(maps[name].values())))


def length_table(found: dict[str, dict[str, Any]]) -> str:
    """Return the mean over the sets of every candidate's mAP in percent, the one that is taken in bold, in Markdown."""
    tried = list(next(iter(found.values())))
    lines = []
    for form, maps in found.items():
        taken = best_of(maps)
        cells = {name: f"{100 * np.mean(list(maps[name].values())):.1f}" for name in tried}
        shown = [f"**{cells[name]}**" if name == taken else cells[name] for name in tried]
        lines.append([form, *shown, *(f"{100 * value:.1f}" for value in maps[taken].values())])
    sets = next(iter(next(iter(found.values())).values()))
    return markdown_table(["method", *tried, *(f"taken, {name}" for name in sets)], lines, left=0)


def search_cell(method: str, guided: bool, sources: list[Source], settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Try the settings of one method in turn, and return the best, the first, and the recipe "paper" as one."""
    space = space_of(method, guided, settings.bits)
    base = Hasher(settings.bits, method, guided, settings.epochs, seed=settings.seed, recipe="paper")
    base.set_params(**START)
    base.set_params(guidance={"weight": "balanced"} if guided else None)
    start = starting_point(base, space)
    if guided:
        start["guidance.weight"] = METHODS[method].guidance_weight
    done: list[dict[str, Any]] = []
    for number in range(settings.trials):
        file = settings.out / f"{cell_name(method, guided)}-{number:02}.json"
        if not file.exists():
            write_run(file, _try(_asked(space, start, done, number, settings.seed, len(sources)), base, space, sources))
        done.append(read_run(file))
    if settings.last is not None:
        _finish(done, base, len(sources), settings)
    return [winner(done), done[0], try_paper(method, guided, sources, settings)]


def try_paper(method: str, guided: bool, sources: list[Source], settings: argparse.Namespace) -> dict[str, Any]:
    """Return the mAP of the recipe "paper" on each set of data."""
    file = settings.out / f"{cell_name(method, guided)}-paper.json"
    if not file.exists():
        hasher = Hasher(settings.bits, method, guided, settings.epochs, seed=settings.seed, recipe="paper")
        every = [*sources, *([settings.last] if settings.last is not None else [])]
        write_run(file, {"map": {source.name: _score(hasher, source) for source in every}})
    return read_run(file)


def _finish(done: list[dict[str, Any]], base: Hasher, sets: int, settings: argparse.Namespace) -> None:
    """Try the best settings on the last set of data, and write down its mAP beside the others."""
    complete = [trial for trial in done if trial["state"] == "complete"]
    ranked = sorted(complete, key=lambda trial: mean_map(trial, sets), reverse=True)
    for trial in [*ranked[:FINALISTS], *(done[:1] if done[0] in ranked[FINALISTS:] else [])]:
        number, source = done.index(trial), settings.last
        if source.name not in trial["map"]:
            trial["map"][source.name] = _score(with_params(base, trial["params"]), source)
            write_run(settings.out / f"{cell_name(base.method, base.guided)}-{number:02}.json", trial)


def mean_map(trial: dict[str, Any], sets: int | None = None) -> float:
    """Return the mean of a setting's mAP over the sets of data, or over the first ``sets`` of them."""
    return float(np.mean(list(trial["map"].values())[:sets]))


def winner(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the best of the settings that were tried on the most sets of data."""
    return max(trials, key=lambda trial: (len(trial["map"]), mean_map(trial)))


def _asked(
    space: dict[str, Any], start: dict[str, Any], done: list[dict[str, Any]], number: int, seed: int, sets: int
) -> Any:
    """Return Optuna's next trial, which follows from the seed and the trials before it."""
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=6, multivariate=True, seed=int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    )
    study = optuna.create_study(
        direction="maximize", sampler=sampler, pruner=optuna.pruners.MedianPruner(n_startup_trials=6)
    )
    states = optuna.trial.TrialState
    for one in done:
        values = list(one["map"].values())[:sets]  # without the last set, which only the best see
        complete = one["state"] == "complete"
        study.add_trial(
            optuna.trial.create_trial(
                state=states.COMPLETE if complete else states.PRUNED,
                params=one["params"],
                distributions=space,
                value=float(np.mean(values)),
                intermediate_values={step: float(np.mean(values[: step + 1])) for step in range(len(values))},
            )
        )
    if number == 0:
        study.enqueue_trial(start)
    return study.ask(space)


def _try(asked: Any, base: Hasher, space: dict[str, Any], sources: list[Source]) -> dict[str, Any]:
    """Train one setting on each set of data, until it is pruned."""
    params = {name: asked.params[name] for name in space}
    state, found, started = "complete", {}, time.perf_counter()
    for step, source in enumerate(sources):
        found[source.name] = _score(with_params(base, params), source)
        asked.report(float(np.mean(list(found.values()))), step)
        if step < len(sources) - 1 and asked.should_prune():
            state = "pruned"
            break
    return {"params": params, "state": state, "map": found, "seconds": round(time.perf_counter() - started, 1)}


def _score(hasher: Hasher, source: Source) -> float:
    """Train a setting on a set of data, and return the mAP of the rows held out."""
    fitted, validation, classes = _parts(source, hasher.seed)
    hasher.fit_split(fitted, classes, known_confusion=lambda: _confusion(source, hasher.seed))
    codes = hasher.encode_split(validation)
    found = score_codes(codes, validation.labels, classes, hasher.bits, with_map=True, top_k=source.top_k()).map
    assert found is not None
    return found


def _asked_map(hasher: Hasher, source: Source) -> float:
    """Train a setting on rows cut from the training rows, and return the mAP of others, as the data's protocol asks."""
    cut = replace(source, validation=True)
    dataset = cut.dataset(hasher.seed)
    hasher.fit_split(dataset.train, dataset.classes, known_confusion=lambda: _confusion(cut, hasher.seed))
    query, base = (hasher.encode_split(part) for part in (dataset.query, dataset.base))
    labels = dataset.query.labels, dataset.base.labels
    return evaluate(query, labels[0], base, labels[1], cut.top_k(), bits=hasher.bits).map


@cache
def _parts(source: Source, seed: int) -> tuple[EmbeddingSplit, EmbeddingSplit, int]:
    split, classes = source.training()
    return *hold_out(split, HELD_OUT, seed), len(classes)


@cache
def _confusion(source: Source, seed: int) -> Any:
    if source.validation:
        dataset = source.dataset(seed)
        return confusion(dataset.train, dataset.classes)
    fitted, _, classes = _parts(source, seed)
    return confusion(fitted, classes)


def main(arguments: list[str] | None = None) -> None:
    """Search, and print a table of the best setting of each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--last", metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--at", type=int, metavar="BITS", help="try what was found at another length")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    settings = parser.parse_args(arguments)
    sources = [Source.of(given) for given in settings.data]
    cells = {cell_name(m, guided): (m, guided, sources, settings) for m in settings.methods for guided in (False, True)}
    if settings.at:
        settings.out.mkdir(parents=True, exist_ok=True)
        running = in_processes(cells, try_length, settings.workers)
        tried = dict(print_progress(running, len(cells), lambda name, _: name))
        print(length_table({name: tried[name] for name in cells}))
        return
    running = in_processes(cells, search_cell, settings.workers)
    found = dict(print_progress(running, len(cells), lambda name, _: name))
    print(table({name: found[name] for name in cells}))


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return in Markdown what ``search_cell`` found: mAP in percent of the best setting, and means of all three."""
    lines = []
    for name, (best, *others) in found.items():
        cells = [f"{100 * value:.1f}" for value in [*best["map"].values(), *map(mean_map, (best, *others))]]
        params = ", ".join(
            f"{key} {value:.2g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in best["params"].items()
        )
        lines.append([name, *cells, params])
    heads = ["method", *best["map"], "mean", "mean of the start", "mean of the recipe paper", "settings"]
    return markdown_table(heads, lines, left=0)


if __name__ == "__main__":
    main()
