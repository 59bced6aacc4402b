"""The search: train on some of the training rows, evaluate on the others, and try what is promising."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from sklearn.base import clone

from lbhash.data import Dataset
from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.diagnostics import diagnose_rows, diagnose_values
from lbhash.evaluation.held_out import INTER_PERCENTILE, PERCENTILE, By, Score, score_codes
from lbhash.hasher import Hasher, fit_split
from lbhash.models.encoder import Encoder
from lbhash.models.hash_model import HashModel
from lbhash.training.coders import coder_of
from lbhash.training.confusion import confusion
from lbhash.training.defaults import completed, pull_of
from lbhash.training.hardware import training_device
from lbhash.training.loop import Training, Watcher
from lbhash.training.settings import side_by_side
from lbhash.trials.trial import kept_folder
from lbhash.tuning import space as spaces
from lbhash.tuning.found import Tuning, best_trial, state_of
from lbhash.tuning.space import Space, import_optuna, with_params
from lbhash.utils.formatting import one_line, shown
from lbhash.utils.labels import check_numbers, class_array
from lbhash.utils.parallel import read_run, write_run
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_choice, check_float, check_int, check_type

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as Asked

STARTUP = 5
"""Number of random trials before the search learns from trials, and prunes by their median."""

_NOT_OF_THE_SEARCH = ("recipe", "device", "threads", "workers", "progress", "trials", "folder")


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search by ``tune``.

    Attributes:
        trials: number of settings to try; trials in the folder count.
        by: "ratio", D_inter / D_intra of the held-out rows' codes, or "map", their mean average precision.
        percentile: the percentile of D_intra in the ratio, from 0 to 100; 100 is the maximum.
        inter_percentile: the percentile of D_inter in the ratio, from 0 to 100; 0 is the minimum.
        top_k: the length of the ranked list in mAP@k. If None, or if there are fewer, all other held-out rows.
        compare: also compute the mAP if the ratio chooses.
        held_out: the share of every class's rows that is held out, above 0 and below 1.
        space: the search space. If None, ``default_space``.
        prune: end a trial whose value is below the median of earlier trials at the same epoch.
        folder: keeps a file of each trial. An interrupted search resumes with the missing trials and gives the same
            result. If None, nothing is kept.
        progress: show a progress bar.

    Raises:
        TypeError, ValueError: a value is not as above.

    >>> SearchOptions(trials=5, by="map").held_out
    0.2
    """

    trials: int = 20
    by: By = "ratio"
    percentile: float = PERCENTILE
    inter_percentile: float = INTER_PERCENTILE
    top_k: int | None = None
    compare: bool = False
    held_out: float = 0.2
    space: Space | None = None
    prune: bool = True
    folder: Path | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_int(self.trials, "trials", 1)
        check_choice(self.by, "by", get_args(By))
        check_float(self.percentile, "percentile", 0, 100)
        check_float(self.inter_percentile, "inter_percentile", 0, 100)
        check_float(self.held_out, "held_out", above=0, below=1)
        for name in ("compare", "prune", "progress"):
            check_type(getattr(self, name), name, bool, "True or False")
        if self.top_k is not None:
            check_int(self.top_k, "top_k", 1)


def tune(hasher: Hasher, data: Dataset | EmbeddingSplit, classes: int | None = None, **options: Any) -> Tuning:
    """Search settings as ``search`` does, with the same arguments, then fit the best on the whole training split.

    >>> from lbhash import Hasher, TrainingArguments
    >>> from lbhash.data import load_dataset
    >>> data = load_dataset("digits")
    >>> found = tune(Hasher(bits=16, epochs=1, training=TrainingArguments(hidden=16)), data, trials=1)
    >>> found.hasher.encode(data.query.take(slice(None))).shape
    (200, 2)
    """
    found = search(hasher, data, classes, **options)
    split, count, values = _training_rows(data, classes)
    fit_split(found.hasher, split, count)
    if values is not None:
        found.hasher.classes_ = values
    return found


def search(hasher: Hasher, data: Dataset | EmbeddingSplit, classes: int | None = None, **options: Any) -> Tuning:
    """Search settings by the codes of held-out rows of the training split.

    The first trial has the hasher's own settings, so the chosen ones are not worse by the criterion.

    Args:
        hasher: has the settings that are not searched: method, bits, epochs, seed … It is not fitted.
        data: a data set, of which only the train split is used, or a training split.
        classes: C, the number of classes; only with a split.
        options: those of ``SearchOptions``.

    Returns:
        The result; its ``hasher`` has the best settings and is not fitted.

    Raises:
        TypeError, ValueError: an argument is not as above, the folder holds another search, or no trial is complete.
    """
    given = SearchOptions(**options)
    split, count, _ = _training_rows(data, classes)
    own = _Search(hasher, split, count, given)
    trials = []
    with counted("searching", given.trials, "trials", show=given.progress) as advance:
        for number in range(given.trials):
            trials.append(own.trial(number))
            advance(1)
    warnings = diagnose_rows(own.labels, count, given.percentile)
    if given.by == "ratio":
        warnings += diagnose_values([trial.value or 0.0 for trial in trials if state_of(trial) == "complete"])
    best = with_params(own.hasher, best_trial(trials, given.by).params)
    criterion = given.by, given.percentile, given.inter_percentile
    return Tuning(*criterion, best, tuple(trials), len(own.validation), tuple(warnings))


class _Search:
    """State that all trials share: the hasher that they change, the rows, the space, and Optuna's study.

    A trial's settings follow from the seed, its number and the trials before it. A search that resumes from the files
    of its trials thus gives the same result; the interrupted trial is run again.
    """

    def __init__(self, hasher: Hasher, split: EmbeddingSplit, classes: int, options: SearchOptions) -> None:
        if not isinstance(hasher, Hasher):
            raise TypeError(f"hasher is {shown(hasher)}; it must be a Hasher")
        if coder_of(hasher.method) is not None:
            raise ValueError(
                f"method is {hasher.method!r}, which fits a model by itself; a search is for methods with epochs"
            )
        training_device(hasher.device)
        given = completed(side_by_side(hasher).checked())
        # Without a given head, trials train bits alone: the searched settings affect nothing else.
        self.head = hasher.head or "bits"
        self.hasher = clone(hasher).set_params(method=given.method, pull=given.pull, head=given.head)
        self.options, self.classes = options, classes
        self.fitted, self.validation = hold_out(split, options.held_out, hasher.seed)
        self.labels = check_numbers(self.validation.labels, classes)
        self.confusion = cache(partial(confusion, self.fitted, classes))
        space = options.space
        if space is None:
            space = spaces.default_space(given.method, pull_of(given), hasher.bits)
        self.space = spaces.checked_space(space, self.hasher, classes)
        self.study = _new_study(hasher.epochs, prune=options.prune)
        self.folder = None
        if options.folder is not None:
            about = {name: value for name, value in asdict(given).items() if name not in _NOT_OF_THE_SEARCH}
            about |= {name: value for name, value in vars(options).items() if name not in _NOT_OF_THE_SEARCH}
            about |= {"space": self.space, "rows": split.fingerprint()}
            self.folder = kept_folder(options.folder, about, "search")

    def trial(self, number: int) -> FrozenTrial:
        """Return a trial from its file, or make it and write the file."""
        optuna = import_optuna()
        file = None if self.folder is None else self.folder / f"{number}.json"
        if file is not None and file.exists():
            held = read_run(file)
            held |= {"state": optuna.trial.TrialState[held["state"]], "distributions": dict(self.space)}
            held["intermediate_values"] = {int(epoch): value for epoch, value in held["intermediate_values"].items()}
            self.study.add_trial(optuna.trial.create_trial(**held))
            return self.study.trials[-1]
        seed = int(np.random.SeedSequence([self.hasher.seed, number]).generate_state(1)[0])
        self.study.sampler = optuna.samplers.TPESampler(n_startup_trials=STARTUP, seed=seed)
        if number == 0:
            self.study.enqueue_trial(spaces.starting_point(self.hasher, self.space))
        self._try(self.study.ask(dict(self.space)))
        made = self.study.trials[-1]
        if file is not None:
            names = ("value", "params", "intermediate_values", "user_attrs")
            write_run(file, {"state": made.state.name, **{name: getattr(made, name) for name in names}})
        return made

    def _try(self, asked: Asked) -> None:
        """Train once; settings that cannot be trained fail this trial, not the search."""
        optuna, by = import_optuna(), self.options.by
        states = optuna.trial.TrialState
        watch, own = _Watch(self, asked), with_params(self.hasher, {**asked.params, "head": self.head})
        state, why, score, started = states.COMPLETE, "", None, time.perf_counter()
        try:
            fit_split(own, self.fitted, self.classes, known_confusion=self.confusion, watchers=[watch])
            model = own.model_
        except optuna.TrialPruned:
            state, model = states.PRUNED, watch.model
        except ValueError as error:
            state, why = states.FAIL, one_line(error)
        seconds = round(time.perf_counter() - started, 3)
        if state != states.FAIL:
            with_map = state == states.COMPLETE and (by == "map" or self.options.compare)
            score = self.score(model, with_map=with_map)
        told = {"score": score and asdict(score), "epochs": watch.epochs, "seconds": seconds, "why": why}
        for name, value in told.items():
            asked.set_user_attr(name, value)
        self.study.tell(asked, score.by(by) if score and state == states.COMPLETE else None, state)

    def score(self, model: Encoder, *, with_map: bool) -> Score:
        """Score the codes of the held-out rows."""
        codes = np.concatenate([model.encode(chunk) for chunk in self.validation.chunks()])
        names = ("percentile", "inter_percentile", "top_k")
        options: dict[str, Any] = {name: getattr(self.options, name) for name in names}
        return score_codes(codes, self.labels, self.classes, self.hasher.bits, with_map=with_map, **options)


def _new_study(epochs: int, *, prune: bool) -> Study:
    optuna = import_optuna()
    # No trial is pruned in the first quarter of the epochs.
    median = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=max(1, epochs // 4))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would print that the study is new
    try:
        return optuna.create_study(direction="maximize", pruner=median if prune else optuna.pruners.NopPruner())
    finally:
        optuna.logging.set_verbosity(verbosity)


class _Watch(Watcher):
    """Counts the epochs; if trials are pruned, reports the criterion after each and ends a trial that lags behind."""

    def __init__(self, search: _Search, asked: Asked) -> None:
        self.search, self.asked, self.epochs = search, asked, 0
        self.model: Encoder

    def value(self) -> float:
        """Return the criterion of the held-out rows, which the pruner compares."""
        by = self.search.options.by
        return self.search.score(self.model, with_map=by == "map").by(by)

    def epoch_ended(self, training: Training) -> None:
        """Evaluate the held-out rows."""
        self.model = cast(HashModel, training.model).encoder()
        self.epochs = training.epoch + 1
        if not self.search.options.prune:
            return
        self.asked.report(self.value(), training.epoch)
        if self.epochs < training.epochs and self.asked.should_prune():
            raise import_optuna().TrialPruned


def _training_rows(data: Dataset | EmbeddingSplit, classes: int | None) -> tuple[EmbeddingSplit, int, Any]:
    """Return the training split, the number of its classes, and their values if they were renumbered."""
    rows = data.train if isinstance(data, Dataset) else data
    if isinstance(rows, EmbeddingSplit) and rows.labels is None:
        advice = "give a file of labels or a label_column, or train without a search"
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
