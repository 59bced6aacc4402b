"""The bar on standard error, and what TensorBoard gets."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lbhash.training.progress
from lbhash.hasher import Hasher
from lbhash.training import Watcher
from lbhash.training.progress import EpochBar
from lbhash.training.schedule import Schedule
from training_tools import Stop, part_of

SETTINGS = {"bits": 12, "hidden": 16, "epochs": 3, "batch_size": 32, "seed": 3}


class Clock:
    """Time that passes only when a batch or an epoch ends."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


class Pass(Watcher):
    """Two seconds a batch, and ten more after each epoch, for what is not training; the bar looks on after it."""

    def __init__(self, clock):
        self.clock = clock

    def step_done(self, training):
        self.clock.now += 2

    def epoch_ended(self, training):
        self.clock.now += 10


class Look(Watcher):
    """Notes what the bar has just said."""

    def __init__(self, bar):
        self.bar, self.said, self.done = bar, [], []

    def step_done(self, training):
        self.said.append(self.bar._bar.tasks[0].fields["said"])
        self.done.append(self.bar._bar.tasks[0].completed)


@pytest.fixture
def watched(blobs, monkeypatch):
    """A function that trains with a bar, and gives what it said after every batch."""

    def run(*, watchers=(), **changed):
        clock = Clock()
        monkeypatch.setattr(lbhash.training.progress, "time", clock)
        with EpochBar("csq_d") as bar:
            look = Look(bar)
            hasher = Hasher(**{**SETTINGS, **changed})
            hasher.fit_split(part_of(blobs), 4, watchers=[Pass(clock), bar, look, *watchers])
        return look, bar

    return run


def test_the_bar_moves_with_the_steps(watched):
    look, bar = watched()
    np.testing.assert_allclose(look.done, np.arange(1, 16) / 5)
    assert [said.splitlines()[0] for said in look.said[:3]] == [
        "0.2/3 epochs · 16 rows a second · 0:00:28 left",
        "0.4/3 epochs · 16 rows a second · 0:00:26 left",
        "0.6/3 epochs · 16 rows a second · 0:00:24 left",
    ]
    # Sixteen seconds into the second epoch's first batch: a fifth more than one epoch in 22 seconds.
    assert look.said[5].startswith("1.2/3 epochs · 16 rows a second · 0:00:33 left\n")
    assert re.fullmatch(r"loss \d+\.\d{3}", look.said[0].splitlines()[1])
    assert re.fullmatch(r"loss \d+\.\d{3} · ratio \d+\.\d{3}", look.said[5].splitlines()[1])
    last = bar._bar.tasks[0].fields["said"]
    assert re.match(r"3/3 epochs · .* rows a second · 0:01:00\nloss \d+\.\d{3} · ratio \d\.\d{3}$", last)


def test_the_terminal_is_given_back(watched):
    with pytest.raises(KeyError, match="stopped"):
        watched(watchers=[Stop(1)])
    _, bar = watched(epochs=1)
    assert not bar._bar.live.is_started


def test_the_command_shows_the_bar_on_standard_error(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, errors = command("train", "--bits", 8, "--hidden", 0, "--epochs", 2, "--patience", 1, "--out", "m")
    assert status == 0
    assert "epochs" in errors
    assert "validation ratio" in errors
    assert "a second" not in out


def test_tensorboard_has_rates_and_speed(blobs, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    hasher = Hasher(**SETTINGS, recipe="paper", schedule="linear", monitor="ratio")
    hasher.fit_split(part_of(blobs), 4, directory=tmp_path, logger="tensorboard")
    events = EventAccumulator(str(tmp_path / "logs")).Reload()

    def values(name):
        return [event.value for event in events.Scalars(name)]

    last_steps = [Schedule.of(hasher).rate(epoch, 4, 5) for epoch in range(3)]  # 144 rows are trained on
    np.testing.assert_allclose(values("lr"), last_steps, rtol=1e-6)
    speeds = values("rows_per_second")
    assert len(speeds) == 3
    assert min(speeds) > 0
    assert hasher.trained_.rows_per_second == pytest.approx(3 / sum(1 / speed for speed in speeds), rel=1e-3)
    assert len(values("validation_ratio")) == 3
