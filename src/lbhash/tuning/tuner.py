"""The search: train on a part of the training rows, judge by the rest, and try what promises more."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning.pytorch.callbacks import Callback

from lbhash.codes import PackedCodes, check_bits
from lbhash.data import Dataset, EmbeddingSplit, hold_out
from lbhash.evaluation.bound import bound
from lbhash.evaluation.diagnostics import cautions_of_rows, cautions_of_values
from lbhash.evaluation.held_out import (
    INTER_PERCENTILE,
    PERCENTILE,
    By,
    Score,
    bounded_ratio,
    leave_one_out_map,
    score_codes,
)
from lbhash.evaluation.metrics import check_choice
from lbhash.training.confusion import confusion
from lbhash.training.hardware import check_machine
from lbhash.tuning.space import Space, check_space, default_space, starting_point, with_fractions, with_params
from lbhash.tuning.study import Study
from lbhash.tuning.trials import State, Trial, Tuning, best_trial
from lbhash.utils.labels import check_labels
from lbhash.utils.validation import check_int

if TYPE_CHECKING:
    from pathlib import Path

    import lightning as L

    from lbhash.centers.targets import Confusion
    from lbhash.hasher import Hasher
    from lbhash.models.hash_model import HashModel

_NOT_OF_THE_SEARCH = ("device", "threads", "devices", "nodes", "workers", "progress")


def tune(hasher: Hasher, data: Dataset | EmbeddingSplit, classes: int | None = None, **search_options: Any) -> Tuning:
    """Search settings, then fit the best ones on the whole training part.

    Args:
        hasher: what is not searched: method, bits, epochs, seed … It is not fitted itself.
        data: a data set, of which only the train split is looked at, or a training part.
        classes: C, with a part.
        search_options: of ``search``.

    Returns:
        What the search found, its ``hasher`` fitted.

    >>> from lbhash import Hasher
    >>> from lbhash.data import load_dataset
    >>> found = tune(Hasher(bits=16, epochs=1, hidden=16), load_dataset("digits"), trials=1)
    >>> found.hasher.encode_split(load_dataset("digits").query).shape
    (200, 2)
    """
    found = search(hasher, data, classes, **search_options)
    part, count, values = _training_rows(data, classes)
    found.hasher.fit_split(part, count)
    if values is not None:
        found.hasher.classes_ = values
    return found


def search(
    hasher: Hasher,
    data: Dataset | EmbeddingSplit,
    classes: int | None = None,
    *,
    trials: int = 20,
    by: By = "ratio",
    percentile: float = PERCENTILE,
    inter_percentile: float = INTER_PERCENTILE,
    at: int | None = None,
    compare: bool = False,
    held_out: float = 0.2,
    space: Space | None = None,
    seed: int | None = None,
    prune: bool = True,
    folder: Path | None = None,
    resume: bool = False,
    after_trial: Callable[[Trial], None] | None = None,
) -> Tuning:
    """Search settings by what they make of rows that are held out of the training part.

    The first trial is the hasher as it is, so that nothing is chosen that does worse by the criterion.

    Args:
        hasher: what is not searched.
        data: a data set, of which only the train split is looked at, or a training part.
        classes: C, with a part.
        trials: how many settings to try; those of a resumed search count.
        by: "ratio", D_inter / D_intra of the held-out codes, or "map", their mean average precision.
        percentile: of D_intra in the ratio, from 0 to 100; 100 is the maximum.
        inter_percentile: of D_inter in the ratio, from 0 to 100; 0 is the minimum.
        at: rank R of the mAP; all other held-out rows where there are fewer.
        compare: whether to compute the mAP where the ratio chooses.
        held_out: share of every class's rows that is held out.
        space: what is searched; ``default_space`` where it is not given.
        seed: of the held-out rows and of what is tried; the hasher's where it is not given.
        prune: whether to end a trial whose value is below the median of the trials before, at the same epoch.
        folder: keeps the trials, so that a killed search can go on; nothing is kept without.
        resume: go on from the folder's trials. What is found is the same as if the search had not been killed.
        after_trial: called after every trial, those of a resumed search among them.

    Returns:
        What was found; its ``hasher`` has the best settings and is not fitted.

    Raises:
        TypeError, ValueError: an argument is not as above, the folder's search is another one, or no trial came to its
            end.
    """
    trials = check_int(trials, "trials", 1)
    check_choice(by, ("ratio", "map"), "by")
    for name, value in (("percentile", percentile), ("inter_percentile", inter_percentile)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
            raise ValueError(f"{name} is {value!r}; it must be a number from 0 to 100")
    at = None if at is None else check_int(at, "at", 1)
    bits = check_bits(hasher.bits)
    seed = hasher.seed if seed is None else seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed is {seed!r}; it must be an integer of at least 0")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    check_machine(hasher.device, hasher.threads)  # which would fail every trial
    for name in ("devices", "nodes"):
        if getattr(hasher, name) != 1:
            raise ValueError(f"{name} is {getattr(hasher, name)!r}; a search trains in one process, and it must be 1")
    part, count, _ = _training_rows(data, classes)
    fitted, held = hold_out(part, held_out, seed)
    space = default_space(hasher.method, hasher.guided, bits) if space is None else space
    check_space(space, hasher, count)
    space = with_fractions(space, hasher)
    study = Study(
        space,
        seed,
        starting_point(hasher, space),
        hasher.epochs,
        prune=prune,
        identity=_identity(
            hasher,
            part,
            by=by,
            percentile=float(percentile),
            inter_percentile=float(inter_percentile),
            at=at,
            compare=compare,
            held_out=held_out,
            space={name: values.as_dict() for name, values in space.items()},
            prune=prune,
            search_seed=seed,
        ),
        folder=folder,
        resume=resume,
    )
    judge = _Judge(held, count, bits, (percentile, inter_percentile), by, compare, at)
    done = study.trials()[:trials]
    for trial in done if after_trial is not None else ():
        after_trial(trial)  # type: ignore[misc]
    confused = cache(partial(confusion, fitted, count))
    while len(done) < trials:
        asked, params = study.ask(len(done))
        trial = _try(with_params(hasher, params), fitted, confused, judge, asked, prune, len(done), params)
        study.tell(asked, trial, trial.value(by))
        done.append(trial)
        if after_trial is not None:
            after_trial(trial)
    best = best_trial(done, by)
    assert held.labels is not None
    cautions = cautions_of_rows(check_labels(held.labels, classes=count), count, percentile)
    if by == "ratio":
        cautions += cautions_of_values([trial.value(by) or 0.0 for trial in done if trial.state == "complete"])
    return Tuning(
        by=by,
        percentile=percentile,
        inter_percentile=inter_percentile,
        hasher=with_params(hasher, best.params),
        trials=tuple(done),
        held_out=len(held),
        cautions=tuple(cautions),
    )


class _Judge:
    """Scores models by the held-out rows."""

    def __init__(
        self,
        held: EmbeddingSplit,
        classes: int,
        bits: int,
        percentiles: tuple[float, float],
        by: By,
        compare: bool,
        at: int | None,
    ) -> None:
        assert held.labels is not None
        self.held, self.classes, self.bits, self.percentiles = held, classes, bits, percentiles
        self.labels = check_labels(held.labels, classes=classes)
        self.by, self.with_map, self.at = by, by == "map" or compare, at

    def encode(self, model: HashModel) -> PackedCodes:
        """The held-out rows' codes."""
        return np.concatenate([model.encode(chunk) for chunk in self.held.chunks()])

    def value(self, model: HashModel) -> float:
        """What the pruner looks at."""
        codes = self.encode(model)
        if self.by == "map":
            return leave_one_out_map(codes, self.labels, self.bits, self.at)
        found = bound(codes, self.labels, classes=self.classes, bits=self.bits)
        found = found.at_percentile(*self.percentiles)
        return bounded_ratio(found.inter, found.intra)

    def score(self, model: HashModel, *, with_map: bool) -> Score:
        """All that is kept of a trial."""
        return score_codes(
            self.encode(model),
            self.labels,
            self.classes,
            self.bits,
            *self.percentiles,
            with_map=with_map and self.with_map,
            at=self.at,
        )


class _Pruned(Exception):
    """A trial is not worth its remaining epochs."""


class _Watch(Callback):
    """Counts the epochs, and where trials are pruned reports the criterion of each and ends what lags behind."""

    def __init__(self, judge: _Judge, asked: Any, prune: bool) -> None:
        self.judge, self.asked, self.prune, self.epochs = judge, asked, prune, 0
        self.model: HashModel | None = None

    def on_train_epoch_end(self, trainer: L.Trainer, module: Any) -> None:
        """Look at the held-out rows."""
        self.model = module.model
        self.epochs = trainer.current_epoch + 1
        if not self.prune:
            return
        self.asked.report(self.judge.value(module.model), trainer.current_epoch)
        if self.epochs < int(trainer.max_epochs or 0) and self.asked.should_prune():
            raise _Pruned


def _try(
    hasher: Hasher,
    part: EmbeddingSplit,
    confused: Confusion,
    judge: _Judge,
    asked: Any,
    prune: bool,
    number: int,
    params: dict[str, Any],
) -> Trial:
    """Train once. What a setting makes impossible fails this trial, and not the search."""
    watch = _Watch(judge, asked, prune)
    started = time.perf_counter()

    def trial(state: State, score: Score | None, why: str = "") -> Trial:
        return Trial(number, params, state, score, watch.epochs, round(seconds, 3), why)

    try:
        hasher.fit_split(part, judge.classes, known_confusion=confused, callbacks=[watch])
    except _Pruned:
        seconds = time.perf_counter() - started
        assert watch.model is not None
        return trial("pruned", judge.score(watch.model, with_map=False))
    except ValueError as error:
        seconds = time.perf_counter() - started
        return trial("failed", None, " ".join(str(error).split()))
    seconds = time.perf_counter() - started
    return trial("complete", judge.score(hasher.model_, with_map=True))


def _training_rows(data: Dataset | EmbeddingSplit, classes: int | None) -> tuple[EmbeddingSplit, int, Any]:
    """The training part, the number of its classes, and what their numbers were where they were numbered anew."""
    if isinstance(data, Dataset):
        if classes is not None:
            raise ValueError(f"classes is {classes} and data is a data set, which knows its own; give one of the two")
        part, values = data.train.compact()
        return part, len(values), values
    if not isinstance(data, EmbeddingSplit):
        raise TypeError(f"data is of type {type(data).__name__}; it must be a Dataset or an EmbeddingSplit")
    if classes is None:
        raise ValueError("classes is missing; with a part it must be the number of classes")
    return data, check_int(classes, "classes", 1), None


def _identity(hasher: Hasher, part: EmbeddingSplit, **settings: Any) -> dict[str, str]:
    """What a search is known by."""
    held = {name: str(value) for name, value in hasher.get_params().items() if name not in _NOT_OF_THE_SEARCH}
    held |= {name.replace("_", " "): str(value) for name, value in settings.items()}
    return held | {"fingerprint of the rows": part.fingerprint()}
