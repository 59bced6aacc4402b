"""The search: train on some of the training rows, evaluate on the others, and try what is promising."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from sklearn.base import clone

from lbhash.data import Dataset, EmbeddingSplit, hold_out
from lbhash.evaluation.diagnostics import diagnose_rows, diagnose_values
from lbhash.evaluation.held_out import INTER_PERCENTILE, PERCENTILE, By, Score, score_codes
from lbhash.hasher import Hasher
from lbhash.models.encoder import Encoder
from lbhash.models.hash_model import HashModel
from lbhash.training.coders import coder_of
from lbhash.training.confusion import confusion
from lbhash.training.defaults import completed, pull_of
from lbhash.training.hardware import training_device
from lbhash.training.loop import Training, Watcher
from lbhash.tuning import space as spaces
from lbhash.tuning.space import Space, import_optuna, with_params
from lbhash.tuning.study import Study
from lbhash.tuning.trials import State, Trial, Tuning, best_trial
from lbhash.utils.formatting import one_line, shown
from lbhash.utils.labels import check_numbers, class_array
from lbhash.utils.validation import check_choice, check_float, check_int

_NOT_OF_THE_SEARCH = ("recipe", "device", "threads", "workers", "progress")


def tune(hasher: Hasher, data: Dataset | EmbeddingSplit, classes: int | None = None, **search_options: Any) -> Tuning:
    """Search settings by ``search``, whose arguments these are, then fit its ``hasher`` on the whole training split.

    >>> from lbhash import Hasher
    >>> from lbhash.data import load_dataset
    >>> found = tune(Hasher(bits=16, epochs=1, hidden=16), load_dataset("digits"), trials=1)
    >>> found.hasher.encode_split(load_dataset("digits").query).shape
    (200, 2)
    """
    found = search(hasher, data, classes, **search_options)
    split, count, values = _training_rows(data, classes)
    found.hasher.fit_split(split, count)
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
    top_k: int | None = None,
    compare: bool = False,
    held_out: float = 0.2,
    space: Space | None = None,
    prune: bool = True,
    folder: Path | None = None,
    resume: bool = False,
    after_trial: Callable[[Trial], None] | None = None,
) -> Tuning:
    """Search settings by the codes of validation rows, which are held out of the training split.

    The first trial is the hasher as it is, so that no setting is chosen that is worse by the criterion.

    Args:
        hasher: what is not searched: method, bits, epochs, seed … It is not fitted itself.
        data: a data set, of which only the train split is used, or a training split.
        classes: C, the number of classes; only with a split.
        trials: how many settings to try; those of a resumed search count.
        by: "ratio", D_inter / D_intra of the validation rows' codes, or "map", their mean average precision.
        percentile: the percentile of D_intra in the ratio, from 0 to 100; 100 is the maximum.
        inter_percentile: the percentile of D_inter in the ratio, from 0 to 100; 0 is the minimum.
        top_k: the length of the ranked list in mAP@k. If None, or if there are fewer, it is all other validation rows.
        compare: whether to compute the mAP although the ratio chooses.
        held_out: the share of every class's rows that are validation rows, above 0 and below 1.
        space: what is searched. If None, ``default_space``.
        prune: whether to end a trial whose value is below the median of the trials before, at the same epoch.
        folder: where the trials are stored, so that a killed search can be resumed. If None, nothing is stored.
        resume: whether to resume the folder's search. The result is the same as if it had not been killed.
        after_trial: called after every trial, also for those of a resumed search.

    Returns:
        What was found; its ``hasher`` has the best settings and is not fitted. An argument that is not as above, a
        folder with another search, or a search of which no trial is complete, is a ``TypeError`` or ``ValueError``.
    """
    if not isinstance(hasher, Hasher):
        raise TypeError(f"hasher is {shown(hasher)}; it must be a Hasher")
    trials = check_int(trials, "trials", 1)
    by = check_choice(by, "by", get_args(By))
    percentiles = (
        check_float(percentile, "percentile", 0, 100),
        check_float(inter_percentile, "inter_percentile", 0, 100),
    )
    top_k = None if top_k is None else check_int(top_k, "top_k", 1)
    if coder_of(hasher.method) is not None:
        raise ValueError(
            f"method is {hasher.method!r}, which fits a model by itself; a search is for methods with epochs"
        )
    given = completed(hasher.checked())
    # Trials are of the network's bits where nothing else is said, since these are what the settings change.
    own_head = hasher.head or "bits"
    hasher = clone(hasher).set_params(method=given.method, pull=given.pull, head=given.head)
    training_device(hasher.device)
    split, count, _ = _training_rows(data, classes)
    fitted, validation = hold_out(split, held_out, hasher.seed)
    space = spaces.default_space(given.method, pull_of(given), hasher.bits) if space is None else space
    space = spaces.checked_space(space, hasher, count)
    # What tells a search from others, by the names that a study stores.
    settings = {
        name: value for name, value in asdict(completed(hasher.checked())).items() if name not in _NOT_OF_THE_SEARCH
    }
    settings |= {"by": by, "percentile": percentiles[0], "inter_percentile": percentiles[1], "top_k": top_k}
    settings |= {"compare": compare, "held_out": held_out, "prune": prune}
    settings |= {"space": space, "fingerprint of the rows": split.fingerprint()}
    told = {name: str(value) for name, value in settings.items()}
    start = spaces.starting_point(hasher, space)
    study = Study(space, hasher.seed, start, hasher.epochs, prune=prune, settings=told, folder=folder, resume=resume)
    labels = check_numbers(validation.labels, count)

    def score(model: Encoder, with_map: bool) -> Score:
        codes = np.concatenate([model.encode(chunk) for chunk in validation.chunks()])
        return score_codes(codes, labels, count, hasher.bits, *percentiles, with_map=with_map, top_k=top_k)

    shared = cache(partial(confusion, fitted, count))  # computed once for all trials
    done = study.trials()[:trials]
    for number in range(trials):
        if number == len(done):
            asked, params = study.ask(number)
            watch, own = _Watch(score, by, asked, prune), with_params(hasher, {**params, "head": own_head})
            train = partial(own.fit_split, fitted, count, known_confusion=shared, watchers=[watch])
            done.append(_try(train, watch, by == "map" or compare, number, params))
            study.tell(asked, done[-1], done[-1].value(by))
        if after_trial is not None:
            after_trial(done[number])
    diagnostics = diagnose_rows(labels, count, percentiles[0])
    if by == "ratio":
        diagnostics += diagnose_values([trial.value(by) or 0.0 for trial in done if trial.state == "complete"])
    best = with_params(hasher, best_trial(done, by).params)
    return Tuning(by, *percentiles, best, tuple(done), len(validation), tuple(diagnostics))


class _Watch(Watcher):
    """Counts the epochs; if trials are pruned, reports the criterion after each and ends a trial that lags behind."""

    def __init__(self, score: Callable[[Encoder, bool], Score], by: By, asked: Any, prune: bool) -> None:
        self.score, self.by, self.asked, self.prune, self.epochs = score, by, asked, prune, 0
        self.model: Encoder

    def value(self) -> float:
        """Return the criterion of the validation rows, which the pruner compares."""
        return self.score(self.model, self.by == "map").by(self.by)

    def epoch_ended(self, training: Training) -> None:
        """Evaluate the validation rows."""
        self.model = cast(HashModel, training.model).encoder()
        self.epochs = training.epoch + 1
        if not self.prune:
            return
        self.asked.report(self.value(), training.epoch)
        if self.epochs < training.epochs and self.asked.should_prune():
            raise import_optuna().TrialPruned


def _try(train: Callable[[], Hasher], watch: _Watch, with_map: bool, number: int, params: dict[str, Any]) -> Trial:
    """Train once. A setting that cannot be trained fails this trial, and not the search."""
    state: State = "complete"
    why, score, started = "", None, time.perf_counter()
    try:
        model = train().model_
    except import_optuna().TrialPruned:
        state, model = "pruned", watch.model
    except ValueError as error:
        state, why = "failed", one_line(error)
    seconds = round(time.perf_counter() - started, 3)
    if state != "failed":
        score = watch.score(model, with_map and state == "complete")
    return Trial(number, params, state, score, watch.epochs, seconds, why)


def _training_rows(data: Dataset | EmbeddingSplit, classes: int | None) -> tuple[EmbeddingSplit, int, Any]:
    """Return the training split, the number of its classes, and their values if they were numbered anew."""
    rows = data.train if isinstance(data, Dataset) else data
    if isinstance(rows, EmbeddingSplit) and rows.labels is None:
        advice = "give some (--labels FILE or --label-column NAME), or train without a search"
        raise ValueError(f"data has no labels, which the trials of a search learn from; {advice}")
    missing = len(rows) - len(rows.labeled()) if isinstance(rows, EmbeddingSplit) else 0
    if missing:
        raise ValueError(f"{missing:,} of {len(rows):,} rows have no label, which a search needs; leave them out")
    if isinstance(data, Dataset):
        if classes is not None:
            raise ValueError(f"classes is {classes} and data is a data set, which knows its own; give one of the two")
        split, values = data.train.compact()
        return split, len(values), class_array([data.class_names[one] for one in values.tolist()])
    if not isinstance(data, EmbeddingSplit):
        raise TypeError(f"data is of type {type(data).__name__}; it must be a Dataset or an EmbeddingSplit")
    if classes is None:
        raise ValueError("classes is missing; with a split it must be the number of classes")
    return data, check_int(classes, "classes", 1), None
