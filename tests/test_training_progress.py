"""The bar on standard error."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lbhash.training.epoch_bar
from lbhash.hasher import Hasher, fit_split
from lbhash.training import Watcher
from lbhash.training.epoch_bar import EpochBar
from lbhash.training.settings import grouped
from training_tools import Stop, part_of

SETTINGS = {"bits": 12, "hidden": 16, "epochs": 3, "batch_size": 32, "seed": 3}


class Look(Watcher):
    """Notes what the bar has just said."""

    def __init__(self, bar):
        self.bar, self.said, self.done = bar, [], []

    def step_done(self, training):
        self.said.append(said_by(self.bar))
        self.done.append(self.bar._bar.tasks[0].completed)


def said_by(bar):
    return bar._bar.tasks[0].fields["said"]


def test_the_bar_moves_with_the_steps(blobs, monkeypatch):
    monkeypatch.setattr(lbhash.training.epoch_bar, "_SECONDS", 0)
    with EpochBar("csq_d") as bar:
        look = Look(bar)
        fit_split(Hasher(**grouped(**SETTINGS)), part_of(blobs), 4, watchers=[bar, look])
    np.testing.assert_allclose(look.done, np.arange(1, 16) / 5)
    speed, time, loss, ratio = r"[\d,]+ rows a second", r"0:\d\d:\d\d", r"loss \d+\.\d{3}", r"ratio \d+\.\d{3}"
    assert re.fullmatch(rf"0\.2/3 epochs · {speed} · {time} left\n{loss}", look.said[0])
    assert re.fullmatch(rf"1\.2/3 epochs · {speed} · {time} left\n{loss} · {ratio}", look.said[5])
    assert re.fullmatch(rf"3/3 epochs · {speed} · {time}\n{loss} · {ratio}", said_by(bar))


def test_the_terminal_is_given_back(blobs):
    with pytest.raises(KeyError, match="stopped"), EpochBar("csq_d") as bar:
        fit_split(Hasher(**grouped(**SETTINGS)), part_of(blobs), 4, watchers=[bar, Stop(1)])
    assert not bar._bar.live.is_started


def test_the_command_shows_the_bar_on_standard_error(tmp_path, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, errors = succeed("train", "digits", "--bits", 8, "--hidden", 0, "--epochs", 2, "--patience", 1, "--out", "m")
    assert "epochs" in errors
    assert "validation ratio" in errors
    assert "a second" not in out
