"""The guidance beside a pull bit by bit, each with settings of its own: the same settings are tried for every form.

    python -m benchmarks.experiments.searched_pulls --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out FOLDER

HashNet and DSDH alone, with the pull "bits" and with the guidance, and CSQ, whose own loss is the pull "bits", alone
and with the guidance: 32 bits, 15 epochs, a cosine schedule, the same class centers. ``--trials`` settings are drawn
once: batch size, learning rate, dropout and the weight of the pull, which a form without a pull leaves out. Each form
tries all of them on 80 % of the training rows of every set. Its value is the mean over the sets of the mAP of the other
20 %, each row a query to all others of them. With its best setting a form is then trained on all training rows with
three seeds, and asked the data's own queries. Intervals and Holm's correction are those of ``like_for_like``.

``--page`` names a page whose part "searched-pulls" becomes the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import asked, fitted, held_out, markdown, options, run, show

from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source
from lbhash.training.settings import grouped
from lbhash.trials.intervals import bootstrap, holm, p_value
from lbhash.trials.trial import Trial

PART = "searched-pulls"
FORMS = {"hashnet": ("none", "bits", "surrogate"), "dsdh": ("none", "bits", "surrogate"), "csq": ("none", "surrogate")}
"""The pulls of each method; the guidance is compared with the one before it."""
EVERY = [(method, pull) for method, pulls in FORMS.items() for pull in pulls]
BITS, EPOCHS, SEEDS = 32, 15, 3

Setting = dict[str, Any]


def drawn(trials: int) -> list[Setting]:
    """Return the settings that every form tries; the first is where the method's own settings were searched from."""
    rng = np.random.default_rng(0)
    found: list[Setting] = [{"batch_size": 256, "lr": 2e-3, "dropout": 0.0, "weight": 1.0}]
    for _ in range(trials - 1):
        batch, dropout = int(rng.choice([64, 128, 256, 512])), round(float(rng.uniform(0, 0.6)), 2)
        rate, weight = np.exp(rng.uniform(np.log([3e-4, 1e-2]), np.log([1e-2, 3.0])))
        found.append(
            {"batch_size": batch, "lr": float(f"{rate:.2g}"), "dropout": dropout, "weight": float(f"{weight:.2g}")}
        )
    return found


def hasher_of(method: str, pull: str, setting: Setting, seed: int = 0) -> Hasher:
    """Return what is trained with a setting."""
    given = {name: value for name, value in setting.items() if name != "weight"}
    guidance = None if pull == "none" else {"weight": setting["weight"]}
    common = {"epochs": EPOCHS, "recipe": "paper", "schedule": "cosine", "head": "bits", "device": "cpu", "seed": seed}
    return Hasher(**grouped(bits=BITS, method=method, pull=pull, guidance=guidance, **common, **given))


def tries(sources: list[Source], settings: list[Setting]) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial of every form and setting, which asks held-out training rows."""
    for source in sources:
        train, question = held_out(source, source.top_k())
        for (number, setting), (method, pull) in product(enumerate(settings), EVERY):
            fit = partial(fitted, hasher=hasher_of(method, pull, setting))
            columns = {"method": method, "pull": pull, "number": number, "data": source.name}
            yield columns, Trial(fit, train, (question,))


def asks(sources: list[Source], best: dict[tuple[str, str], Setting]) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial of every form with its best setting, which asks the queries."""
    for source, (form, setting), seed in product(sources, best.items(), range(SEEDS)):
        columns = {**dict(zip(("method", "pull"), form, strict=True)), "data": source.name, **setting, "seed": seed}
        yield columns, asked(source, hasher_of(*form, setting, seed), source.top_k())


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the mAP in percent of every form, and what the guidance gains over a pull bit by bit, with intervals."""
    by = found.groupby(["method", "data", "pull"])["queries"]
    precision = {key: np.array([figures["map"] for figures in own]) for key, own in by}
    lines, p = [], []
    for method, data in sorted({key[:2] for key in precision}):
        own = {pull: 100 * precision[method, data, pull] for pull in FORMS[method]}
        other, guided = (own[pull] for pull in FORMS[method][-2:])
        means = bootstrap((guided - other)[:, ~np.isnan(own["none"]).any(axis=0)])
        maps = {pull: float(np.nanmean(values)) for pull, values in own.items()}
        gain, (low, high) = maps["surrogate"] - maps[FORMS[method][-2]], np.quantile(means, [0.025, 0.975])
        shown = [f"{maps[pull]:.1f}" if pull in maps else "–" for pull in ("none", "bits", "surrogate")]
        lines.append([data, method, *shown, f"{gain:+.1f}±{(high - low) / 2:.1f}"])
        p.append(p_value(means))
    columns = ["data", "method", "alone", "pull bits", "guidance", "guidance less pull bits"]
    made, sure = pd.DataFrame(lines, columns=columns), holm(np.array(p)) < 0.05
    made[columns[-1]] += np.where(sure, " *", "")
    return made


def main(arguments: list[str] | None = None) -> None:
    """Search, ask, and print both tables."""
    parser = options(__doc__, PART, data=None)
    parser.add_argument("--trials", type=int, default=16)
    given = parser.parse_args(arguments)
    settings = drawn(given.trials)
    tried = run(tries(given.data, settings), given).groupby(["method", "pull", "number"])["map"].mean().unstack()
    best = {form: settings[tried.loc[form].idxmax()] for form in EVERY}
    for method, pull in EVERY:
        print(f"{method}, {pull}: {100 * tried.loc[method, pull].max():.1f} on held-out rows with {best[method, pull]}")
    show(markdown(table(run(asks(given.data, best), given)), left=1), PART, given.page)


if __name__ == "__main__":
    main()
