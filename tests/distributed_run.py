"""What each of several processes runs in the tests of distributed training, and one alone to be compared with."""

from __future__ import annotations

import json
import os

import torch
from lightning.pytorch.callbacks import Callback

from conftest import Blobs
from lbhash.hasher import Hasher
from training_tools import part_of


class Gradients(Callback):
    """Keeps those of the first step: Adam would not tell whether they are so many times too large."""

    def __init__(self):
        self.first = {}

    def on_before_optimizer_step(self, trainer, module, optimizer):
        if not self.first:
            learned = ((name, parameter.grad) for name, parameter in module.named_parameters())
            self.first = {name: gradient.clone() for name, gradient in learned if gradient is not None}


def run_all(out, settings, runs):
    """Train each run, which has a name, settings of its own and a number of rows.

    Every process leaves ``out/NAME-RANK.json``, and its weights beside.
    """
    rank, blobs = os.environ.get("RANK", "0"), Blobs()
    for run in runs:
        hasher, gradients = Hasher(**{**settings, **run["settings"]}), Gradients()
        part = part_of(blobs, run.get("rows"))
        hasher.fit_split(part, 4, directory=out / run["name"], logger="csv", callbacks=[gradients])
        trained = vars(hasher.trained_) | {"rows_per_second": None}
        found = {"fingerprint": hasher.model_.fingerprint(), "trained": trained}
        (out / f"{run['name']}-{rank}.json").write_text(json.dumps(found))
        held = {
            "weights": {name: torch.from_numpy(one) for name, one in hasher.model_.weights.items()},
            "gradients": gradients.first,
        }
        torch.save(held, out / f"{run['name']}-{rank}.pt")


def run_rank(rank, world, port, out, settings, runs):
    """Be one of the processes that torchrun would start; what it says goes to a file."""
    of_torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    of_torchrun |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "tests"}
    os.environ.update({name: str(value) for name, value in of_torchrun.items()})
    with (out / f"said-{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    run_all(out, settings, runs)
