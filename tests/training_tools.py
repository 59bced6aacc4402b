"""What the tests of training share: watchers, processes, and the training loop by hand."""

from __future__ import annotations

import csv
import multiprocessing
from pathlib import Path

import numpy as np
import torch

from lbhash.data.split import EmbeddingSplit
from lbhash.training import Watcher

PROCESSES = multiprocessing.get_context("forkserver")
"""Whose server imports once what all of them need, which takes seconds; unlike this process it never trains itself."""
PROCESSES.set_forkserver_preload(["lbhash.pipeline.train", "lbhash.training.trainer"])


def log_of(folder):
    """Return the lines of a run's log."""
    with (Path(folder) / "logs" / "metrics.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def part_of(blobs, rows=None):
    return EmbeddingSplit(blobs.x[:rows], np.arange(len(blobs.x[:rows])), blobs.y[:rows])


class Stop(Watcher):
    """Ends the training in the middle of an epoch, as a kill would."""

    def __init__(self, epoch, step=2):
        self.epoch, self.step = epoch, step

    def step_done(self, training):
        if (training.epoch, training.step) == (self.epoch, self.step):
            raise KeyError("stopped")


class Recorder(Watcher):
    """Remembers the rate and the rows of every step, and the weights after every epoch."""

    def __init__(self):
        self.rates, self.rows, self.weights, self.groups = [], [], [], []

    def step_done(self, training):
        groups = training.adam.param_groups
        self.rates.append(groups[0]["lr"])
        self.groups.append([group["lr"] for group in groups])
        self.rows.append(training.index.numpy().copy())

    def epoch_ended(self, training):
        self.weights.append({name: tensor.clone() for name, tensor in training.module.state_dict().items()})


def by_hand(model, objective, part, schedule, *, seed):
    """Train on a split by the plainest loop: no dropout, no resuming, nothing logged."""
    model.set_standardization(*part.standardization())
    x, labels = torch.from_numpy(part.take(slice(None))), torch.from_numpy(part.labels)
    learned = [*model.parameters(), *objective.parameters()]
    adam = torch.optim.Adam(learned, lr=schedule.lr)
    model.train()
    objective.train()
    for epoch in range(schedule.epochs):
        objective.begin_epoch(epoch)
        order = np.random.default_rng([seed, epoch]).permutation(len(part))
        batches = np.split(order, range(schedule.batch_size, len(order), schedule.batch_size))
        for step, rows in enumerate(batches):
            adam.zero_grad()
            objective(model(x[rows]), labels[rows], torch.from_numpy(rows)).backward()
            for group in adam.param_groups:
                group["lr"] = schedule.rate(epoch, step, len(batches))
            adam.step()
    model.eval()
    objective.eval().end_training()
