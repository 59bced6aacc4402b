"""What each of several processes runs in the tests of distributed training, and one alone to be compared with.

    python distributed_run.py OUT JSON

``JSON`` has a list of runs under "runs": a name, the settings of a Hasher, and how many rows of the blobs it takes.
What they have in common is under "settings". Every process leaves ``OUT/NAME-RANK.json``, and its weights beside.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

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


def run_all(out: Path, plan: dict) -> None:
    rank = int(os.environ.get("RANK", "0"))
    blobs = Blobs()
    for run in plan["runs"]:
        hasher = Hasher(**plan["settings"], **run.get("settings", {}))
        folder = out / run["name"]
        gradients = Gradients()
        part = part_of(blobs, run.get("rows"))
        hasher.fit_split(part, 4, directory=folder, logger="csv", callbacks=[gradients])
        trained = vars(hasher.trained_) | {"rows_per_second": None}
        found = {"fingerprint": hasher.model_.fingerprint(), "trained": trained}
        (out / f"{run['name']}-{rank}.json").write_text(json.dumps(found))
        held = {"weights": hasher.model_.state_dict(), "gradients": gradients.first}
        torch.save(held, out / f"{run['name']}-{rank}.pt")


if __name__ == "__main__":
    run_all(Path(sys.argv[1]), json.loads(sys.argv[2]))
