"""What each of several processes runs in the tests of distributed training, and one alone to be compared with."""

from __future__ import annotations

import json
import os

import numpy as np
import torch
import torch.distributed as dist

from conftest import Blobs
from lbhash import TrainingArguments
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.training import Watcher, prepare, trainer
from lbhash.training.settings import grouped
from training_tools import part_of


class Gradients(Watcher):
    """Keeps those of the first step: Adam would not tell whether they are so many times too large."""

    def __init__(self):
        self.first = {}

    def step_done(self, training):
        if training.updates == 1 and not self.first:
            learned = ((name, parameter.grad) for name, parameter in training.module.named_parameters())
            self.first = {name: gradient.clone() for name, gradient in learned if gradient is not None}


def run_all(out, settings, runs):
    """Train each run, which has a name, settings of its own and a number of rows.

    Every process leaves ``out/NAME-RANK.json``, and its weights beside.
    """
    rank, blobs = os.environ.get("RANK", "0"), Blobs()
    for run in runs:
        hasher, gradients = Hasher(**grouped(**{**settings, **run["settings"]})), Gradients()
        part = part_of(blobs, run.get("rows"))
        fit_split(hasher, part, 4, directory=out / run["name"], watchers=[gradients])
        trained = vars(hasher.trained_) | {"rows_per_second": None}
        found = {"fingerprint": hasher.model_.fingerprint(), "trained": trained}
        (out / f"{run['name']}-{rank}.json").write_text(json.dumps(found))
        held = {
            "weights": {name: torch.from_numpy(one) for name, one in hasher.model_.weights.items()},
            "gradients": gradients.first,
        }
        torch.save(held, out / f"{run['name']}-{rank}.pt")


def draw_dropout(out):
    """Were the masks the same in both processes, two equal halves of a batch would have equal outputs."""
    found = []

    class Outputs(Watcher):
        def epoch_began(self, training):
            training.model.register_forward_hook(lambda model, x, output: found.append(output.detach()))

    x = np.ones((8, 6), np.float32) * np.arange(6, dtype=np.float32)
    x[0] += 1
    part = EmbeddingSplit(x, np.arange(8), np.arange(8) % 2)
    settings = {"bits": 8, "hidden": 0, "epochs": 1, "batch_size": 4, "dropout": 0.5, "device": "cpu"}
    fit_split(Hasher(**grouped(**settings)), part, 2, watchers=[Outputs()])
    theirs = [torch.empty_like(found[0]) for _ in range(2)]
    dist.all_gather(theirs, found[0].contiguous())
    assert not torch.equal(*theirs)


def end_with_the_first_ones_statistics(out):
    """Batch normalization takes its statistics of a process's own rows; the codes that are judged have one model."""
    from test_training_settings import IMAGE_SETTINGS, EmbeddingLike, image_run

    settings = IMAGE_SETTINGS | {"monitor": "ratio", "workers": 1, "device": "cpu"}
    model, trained = image_run(Blobs(), validation=EmbeddingLike(Blobs()), settings=settings)
    states = [None, None]
    dist.all_gather_object(states, (model.state_dict(), trained.epoch, trained.value))
    assert states[0][1:] == states[1][1:]
    assert all(torch.equal(tensor, states[1][0][name]) for name, tensor in states[0][0].items())
    assert model.backbone[1].num_batches_tracked > 0


def train_towards_the_first_ones_centers(out, pull):
    """Each process arranges them by what it computes itself, which may differ between machines."""
    first, arranged, centers = os.environ["RANK"] == "0", prepare.task_centers, []
    prepare.task_centers = lambda *given: arranged(*given)[:: 1 if first else -1].copy()
    train = trainer.train

    def watched(model, objective, *given, **more):
        centers.append(objective.centers.clone())
        done = train(model, objective, *given, **more)
        centers.append(objective.centers.clone())
        return done

    trainer.train = watched
    Hasher(bits=16, epochs=1, pull=pull, device="cpu", training=TrainingArguments(hidden=8)).fit(Blobs().x, Blobs().y)
    assert first == centers[0].equal(centers[1])


def run_rank(rank, world, port, out, task, *given):
    """Be one of the processes that torchrun would start; what it says goes to a file."""
    of_torchrun = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    of_torchrun |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "tests"}
    of_torchrun |= {"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0}
    os.environ.update({name: str(value) for name, value in of_torchrun.items()})
    with (out / f"said-{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    task(out, *given)
