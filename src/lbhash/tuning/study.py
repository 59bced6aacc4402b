"""The Optuna study behind a search, in a file that a killed search goes on from."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.evaluation.held_out import Score
from lbhash.tuning.space import Space
from lbhash.tuning.trials import Trial
from lbhash.utils.files import check_folder

DATABASE = "study.db"

_SETTINGS, _TRIAL = "lbhash settings", "lbhash trial"
_STARTUP = 5  # random trials, before there is something to learn from them or a median to fall below


class Study:
    """Asks Optuna what to try, and keeps what came of it.

    What a trial tries follows from the seed, its number and the trials before it, so that a search that was killed goes
    on as if nothing had happened; the trial that was running then is tried again.

    Args:
        space: what is searched.
        seed: of the search.
        start: settings of the first trial; what it does not name is drawn.
        epochs: of a training; of the first quarter none is pruned.
        prune: whether trials below the median are ended early.
        identity: what makes this search another than others, by name.
        folder: of ``study.db``; in memory without.
        resume: go on from the folder's study, if there is one.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        start: Mapping[str, Any],
        epochs: int,
        *,
        prune: bool,
        identity: Mapping[str, str],
        folder: Path | None = None,
        resume: bool = False,
    ) -> None:
        optuna = import_optuna()
        self.space, self.seed, self.start = space, seed, start
        if folder is not None and has_study(folder) and not resume:
            raise ValueError(f"out is {str(folder)!r}, which already holds a search; give another folder, or --resume")
        with _quiet():
            pruner = (
                optuna.pruners.MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=max(1, epochs // 4))
                if prune
                else optuna.pruners.NopPruner()
            )
            self._study = optuna.create_study(
                storage=None if folder is None else _storage(optuna, folder),
                study_name="lbhash",
                direction="maximize",
                pruner=pruner,
                load_if_exists=True,
            )
        held = self._study.user_attrs.get(_SETTINGS)
        for name, value in identity.items():
            if held is not None and held.get(name) != value:
                raise ValueError(
                    f"{name} is {value}, and the search in {str(folder)!r} was made with {held.get(name)}; "
                    "resume with the same settings"
                )
        self._study.set_user_attr(_SETTINGS, dict(identity))
        self._states = optuna.trial.TrialState
        for trial in self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
            self._close(trial.number, trial.user_attrs.get(_TRIAL, {"state": "killed"}))

    def trials(self) -> list[Trial]:
        """Those that came to an end, in their order."""
        return [
            _read(number, trial.user_attrs[_TRIAL])
            for number, trial in enumerate(
                trial for trial in self._study.get_trials(deepcopy=False) if _TRIAL in trial.user_attrs
            )
        ]

    def ask(self, number: int) -> tuple[Any, dict[str, Any]]:
        """Optuna's trial of this number, and the settings to try."""
        seed = np.random.SeedSequence([self.seed, number])
        optuna = import_optuna()
        self._study.sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=int(seed.generate_state(1)[0]))
        if number == 0 and not self._study.get_trials(deepcopy=False, states=(self._states.WAITING,)):
            rng = np.random.default_rng(seed)
            drawn = {name: values.sample(rng) for name, values in self.space.items()}
            self._study.enqueue_trial(drawn | dict(self.start))
        asked = self._study.ask()
        return asked, {name: values.suggest(asked, name) for name, values in self.space.items()}

    def tell(self, asked: Any, trial: Trial, value: float | None) -> None:
        """Keep what came of a trial."""
        score = None if trial.score is None else trial.score.as_dict()
        held = {**vars(trial), "score": score, "value": value}
        del held["number"]
        asked.set_user_attr(_TRIAL, held)
        self._close(asked, held)

    def _close(self, asked: Any, held: Mapping[str, Any]) -> None:
        """Say to Optuna how a trial ended; it learns from those that are complete, and a little from those pruned."""
        if held["state"] == "complete":
            self._study.tell(asked, held["value"])
        else:
            self._study.tell(asked, state=self._states.PRUNED if held["state"] == "pruned" else self._states.FAIL)


def import_optuna() -> Any:
    """Optuna, or a ``ValueError`` that says how to install it."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ValueError(f"tune needs {error.name}: pip install 'lbhash[tune]'") from None
    return optuna


def has_study(folder: Path) -> bool:
    """Whether there is something to resume."""
    return (folder / DATABASE).exists()


def _storage(optuna: Any, folder: Path) -> Any:
    from sqlalchemy.engine import URL  # which Optuna stands on, and which knows what a path may not hold
    from sqlalchemy.exc import DatabaseError

    check_folder(folder, "out")
    folder.mkdir(parents=True, exist_ok=True)
    file = str((folder / DATABASE).absolute())
    try:
        return optuna.storages.RDBStorage(URL.create("sqlite", database=file).render_as_string(hide_password=False))
    except (DatabaseError, RuntimeError) as error:
        line = " ".join(str(error).split())[:100]
        raise ValueError(f"the search in {str(folder)!r} is damaged or none of lbhash ({line}); begin anew") from None


def _read(number: int, held: Mapping[str, Any]) -> Trial:
    score = None if held["score"] is None else Score.from_dict(held["score"])
    given = {name: value for name, value in held.items() if name != "value"}
    return Trial(number=number, **{**given, "score": score})


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's remark that a study is new."""
    logger = logging.getLogger("optuna")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
