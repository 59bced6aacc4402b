from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lbhash.losses import Task
from lbhash.losses.registry import build_objective
from lbhash.models.hash_model import HashModel
from lbhash.training import Settings, train
from lbhash.training.batches import DistributedBatchSampler, ShuffledBatches
from lbhash.training.optimizers import Adam
from lbhash.training.schedule import Schedule
from lbhash.training.settings import ScheduleName
from training_tools import by_hand, part_of


@given(st.integers(2, 30), st.integers(1, 12))
def test_each_shape_by_its_formula(epochs, steps):
    for name in get_args(ScheduleName):
        schedule = Schedule(epochs=epochs, lr=2.0, schedule=name, decay=0.5, decay_every=3)
        for epoch in range(epochs):
            for step in range(steps):
                s = (epoch + step / steps) / epochs
                shape = {
                    "step": 0.5 ** (epoch // 3),
                    "cosine": 0.5 + 0.5 * math.cos(math.pi * s),
                    "linear": 1 - s,
                    "constant": 1.0,
                }[name]
                assert schedule.rate(epoch, step, steps) == pytest.approx(2.0 * shape, rel=1e-9)


def test_the_backbone_follows_the_same_schedule():
    given_rate = Schedule(epochs=7, schedule="cosine", lr=0.4, backbone_lr=0.003)
    tenth = Schedule(epochs=7, schedule="cosine", lr=0.4)
    for epoch in range(7):
        factor = given_rate.rate(epoch, 1, 3) / 0.4
        assert given_rate.backbone_rate(epoch, 1, 3) == pytest.approx(0.003 * factor)
        assert tenth.backbone_rate(epoch, 1, 3) == pytest.approx(0.04 * factor)


@pytest.mark.parametrize("name", ["step", "cosine"])
def test_a_training_is_the_obvious_loop(blobs, name):
    """One Adam, and the rate of every step."""
    settings = {"epochs": 3, "batch_size": 32, "lr": 0.01, "schedule": name}
    part = part_of(blobs)
    task = Task(8, 4, torch.from_numpy(blobs.y), 2.0 * torch.eye(4, 8) - 1, epochs=3)
    models = []
    for way in ("library", "hand"):
        torch.manual_seed(3)
        model, objective = HashModel(12, 8, 16, dropout=0.0), build_objective("dbdh", task, pull="none")
        if way == "library":
            train(model, objective, part, Settings(seed=4, **settings))
        else:
            by_hand(model, objective, part, Schedule(**settings), seed=4)
        models.append(model)
    for (key, left), (_, right) in zip(*(model.state_dict().items() for model in models), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-7, msg=key)


def test_adam_is_pytorchs(blobs):
    models = []
    for kind in (torch.optim.Adam, Adam):
        torch.manual_seed(3)
        model = torch.nn.Linear(12, 4)
        adam = kind(model.parameters(), lr=0.01, fused=True)
        for _ in range(2):  # the second time as a resumed training
            for start in range(0, 160, 32):
                adam.zero_grad()
                model(torch.from_numpy(blobs.x[start : start + 32])).square().mean().backward()
                adam.step()
            state = adam.state_dict()
            adam = kind(model.parameters(), lr=0.5, fused=True)
            adam.load_state_dict(state)
        models.append(model)
    assert torch.equal(models[0].weight, models[1].weight)


# ------------------------------------------------------------------------------------------------ slices of batches


@given(st.integers(1, 80), st.integers(2, 30), st.integers(1, 7), st.integers(0, 3))
def test_slices_are_the_batch(rows, batch, world, epoch):
    whole = ShuffledBatches(rows, batch, seed=2)
    whole.set_epoch(epoch)
    ranks = []
    for rank in range(world):
        shards = DistributedBatchSampler(ShuffledBatches(rows, batch, seed=2), rank, world)
        shards.set_epoch(epoch)
        assert len(shards) == len(whole)
        ranks.append(list(shards))
    for step, wanted in enumerate(whole):
        of_step = [shards[step] for shards in ranks]
        assert {shard.epoch for shard in of_step} == {epoch}
        assert {len(shard.rows) for shard in of_step} == {-(-len(wanted) // world)}
        for shard in of_step:
            np.testing.assert_array_equal(shard.batch, wanted)
        np.testing.assert_array_equal(np.concatenate([shard.rows for shard in of_step])[: len(wanted)], wanted)
