"""The Optuna study behind a search, in a file from which a killed search can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.evaluation.held_out import Score
from lbhash.tuning.space import Space, import_optuna
from lbhash.tuning.trials import Trial
from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import check_folder, check_replaceable, make_folder
from lbhash.utils.formatting import one_line

DATABASE = "study.db"

_SETTINGS, _TRIAL = "lbhash settings", "lbhash trial"
_STARTUP = 5  # random trials, before there is something to learn from them or a median to fall below


class Study:
    """Asks Optuna what to try, and stores the results.

    The settings of a trial follow from the seed, its number and the trials before it, so that a search that was killed
    and resumed finds what it would have found; the trial that was running then is tried again. The first trial has the
    settings ``start``, completed by Optuna. ``settings`` tell this search from others; if ``folder`` is None, it is in
    memory.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        start: Mapping[str, Any],
        epochs: int,
        *,
        prune: bool,
        settings: Mapping[str, str],
        folder: Path | None = None,
        resume: bool = False,
    ) -> None:
        self._optuna = optuna = import_optuna()
        self._states = optuna.trial.TrialState
        self.space, self.seed, self.start = space, seed, start
        if folder is not None and (folder / DATABASE).exists() and not resume:
            raise ValueError(f"out is {str(folder)!r}, which already holds a search; give another folder, or --resume")
        # No trial is pruned in the first quarter of the epochs.
        median = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=max(1, epochs // 4))
        pruner = median if prune else optuna.pruners.NopPruner()
        storage = None if folder is None else _storage(folder)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would print that a study is new
        self._folder = folder
        try:
            with self._reading():
                self._study = optuna.create_study(
                    storage=storage, pruner=pruner, study_name="lbhash", direction="maximize", load_if_exists=True
                )
        finally:
            optuna.logging.set_verbosity(verbosity)
        stored = self._stored(self._study, _SETTINGS) or settings
        for name, value in settings.items():
            if (theirs := stored.get(name)) != value:
                made = f"{name} is {value}, and the search in {str(folder)!r} was made with {theirs}"
                raise ValueError(f"{made}; resume with the same settings, or give another folder")
        self._study.set_user_attr(_SETTINGS, with_checksum(settings))
        for trial in self._trials(self._states.RUNNING):
            self._close(trial.number, self._stored(trial, _TRIAL) or {"state": "killed"})

    def trials(self) -> list[Trial]:
        """Return the trials that came to an end, in their order."""
        ended = [stored for trial in self._trials() if (stored := self._stored(trial, _TRIAL)) is not None]
        for stored in ended:
            del stored["value"]
            stored["score"] = stored["score"] and Score.from_dict(stored["score"])
        return [Trial(number=number, **stored) for number, stored in enumerate(ended)]

    def ask(self, number: int) -> tuple[Any, dict[str, Any]]:
        """Return Optuna's trial of this number, and the settings to try."""
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        self._study.sampler = self._optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed)
        if number == 0 and not self._trials(self._states.WAITING):
            self._study.enqueue_trial(dict(self.start))
        asked = self._study.ask(dict(self.space))
        return asked, {name: asked.params[name] for name in self.space}

    def tell(self, asked: Any, trial: Trial, value: float | None) -> None:
        """Store the result of a trial."""
        stored = {**asdict(trial), "value": value}
        del stored["number"]
        asked.set_user_attr(_TRIAL, with_checksum(stored))
        self._close(asked, stored)

    def _stored(self, held: Any, name: str) -> dict[str, Any] | None:
        """Return what the study, or one of its trials, has under a name; None if it has nothing.

        Raises ``ValueError`` if that is damaged, or Optuna's own record of the trial is.
        """
        try:
            stored = checked(held.user_attrs[name]) if name in held.user_attrs else None
            if stored is not None and name == _TRIAL and held.state.is_finished():
                complete = held.state == self._states.COMPLETE
                if held.params != stored["params"] or (complete and held.value != stored["value"]):
                    raise ValueError(f"trial {held.number} is not as it was stored")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(self._folder, error) from None
        return None if stored is None else dict(stored)

    def _trials(self, *states: Any) -> list[Any]:
        with self._reading():
            return self._study.get_trials(deepcopy=False, states=states or None)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise ``ValueError`` for whatever Optuna raises if its file is damaged."""
        try:
            yield
        except Exception as error:
            raise _damaged(self._folder, error) from None

    def _close(self, asked: Any, stored: Mapping[str, Any]) -> None:
        """Tell Optuna how a trial ended; it learns from complete trials, and a little from pruned ones."""
        if stored["state"] == "complete":
            self._study.tell(asked, stored["value"])
        else:
            self._study.tell(asked, state=self._states.PRUNED if stored["state"] == "pruned" else self._states.FAIL)


def _storage(folder: Path) -> Any:
    from sqlalchemy.engine import URL  # Optuna's own dependency, which escapes what a path may hold
    from sqlalchemy.exc import DatabaseError

    check_folder(folder, "out")
    make_folder(folder)
    check_replaceable(folder / DATABASE)
    url = URL.create("sqlite", database=str((folder / DATABASE).absolute()))
    try:
        return import_optuna().storages.RDBStorage(url.render_as_string(hide_password=False))
    except (DatabaseError, RuntimeError) as error:
        raise _damaged(folder, error) from None


def _damaged(folder: Path | None, error: Exception) -> ValueError:
    why = f"is damaged or was not written by lbhash ({one_line(error)[:100]})"
    return ValueError(f"the search in {str(folder)!r} {why}; give another folder")
