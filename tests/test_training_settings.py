"""What a training runs on and with: precision, workers, rows of one's own, backbones."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
import torch
from torch import nn

from lbhash.data.split import EmbeddingSplit
from lbhash.losses import Objective, Task
from lbhash.losses.registry import build_objective
from lbhash.training import Settings, TrainingRows, train
from lbhash.training.schedule import Schedule
from training_tools import Recorder, Stop, part_of


def task_of(blobs, bits=8):
    return Task(bits, 4, torch.from_numpy(blobs.y), 2.0 * torch.eye(4, bits) - 1, epochs=3)


class NoisyRows:
    """Rows whose inputs are drawn anew in every epoch, as augmented images are."""

    def __init__(self, blobs, seed=5):
        self.x, self.labels, self.seed = blobs.x, torch.from_numpy(blobs.y), seed

    def __len__(self):
        return len(self.x)

    def inputs(self, index, epoch):
        noise = [np.random.default_rng([self.seed, epoch, row]).normal(size=12) for row in index]
        return torch.from_numpy((self.x[index] + np.array(noise)).astype(np.float32)).view(-1, 3, 4)

    def fingerprint(self):
        return "noisy"


class Image(nn.Module):
    """A model of two parts: a backbone with batch normalization and a frozen layer, and a head."""

    def __init__(self, bits=8):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv1d(3, 6, 2), nn.BatchNorm1d(6), nn.ReLU(), nn.Flatten(), nn.Linear(18, 10))
        self.backbone[0].requires_grad_(False)
        self.head = nn.Linear(10, bits)

    def forward(self, x):
        return self.head(self.backbone(x))


IMAGE_SETTINGS = {"epochs": 4, "batch_size": 32, "seed": 1}


def image_run(blobs, *, watchers=(), objective="csq", rows=None, settings=IMAGE_SETTINGS, **options):
    torch.manual_seed(2)
    model, loss = Image(), build_objective(objective, task_of(blobs), pull="surrogate")
    rows = NoisyRows(blobs) if rows is None else rows
    trained = train(model, loss, rows, Settings(**settings), watchers=watchers, **options)
    return model, trained


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left.state_dict().values(), right.state_dict().values(), strict=True))


# ----------------------------------------------------------------------------------------------------------- rows


def test_rows_of_embeddings_and_of_ones_own_are_rows(blobs):
    assert isinstance(part_of(blobs), TrainingRows)
    assert isinstance(NoisyRows(blobs), TrainingRows)
    with pytest.raises(ValueError, match="split has no labels; training needs one for each row"):
        image_run(blobs, rows=EmbeddingSplit(blobs.x, np.arange(160), None))


def test_inputs_are_asked_for_by_row_and_epoch(blobs):
    asked = []

    class Asked(NoisyRows):
        def inputs(self, index, epoch):
            asked.append((epoch, index.copy()))
            return super().inputs(index, epoch)

    watch = Recorder()
    image_run(blobs, rows=Asked(blobs), watchers=[watch])
    assert [epoch for epoch, _ in asked] == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
    for (_, index), rows in zip(asked, watch.rows, strict=True):
        np.testing.assert_array_equal(index, rows)


@pytest.mark.end_to_end
def test_codes_do_not_depend_on_the_workers(blobs, tmp_path):
    rows, settings = {"validation": EmbeddingLike(blobs)}, IMAGE_SETTINGS | {"monitor": "ratio"}
    others = set(multiprocessing.active_children())  # of a test before this one
    one, alone = image_run(blobs, **rows, settings=settings)
    judged = {**rows, "settings": settings | {"workers": 2}}
    two, together = image_run(blobs, **judged)
    assert same(one, two)
    assert (alone.epoch, alone.value) == (together.epoch, together.value)
    for child in set(multiprocessing.active_children()) - others:
        child.join(60)  # they end by themselves, on a busy machine a moment later
    assert set(multiprocessing.active_children()) <= others
    with pytest.raises(KeyError, match="stopped"):
        image_run(blobs, directory=tmp_path, watchers=[Stop(epoch=2)], **judged)
    assert set(multiprocessing.active_children()) <= others
    resumed, again = image_run(blobs, directory=tmp_path, resume=True, **judged)
    assert same(one, resumed)
    assert (alone.epoch, alone.value) == (again.epoch, again.value)


class EmbeddingLike(NoisyRows):
    """The same images without noise, every fourth of them."""

    def __init__(self, blobs):
        self.x, self.labels = blobs.x[::4], torch.from_numpy(blobs.y[::4])

    def inputs(self, index, epoch):
        assert epoch == 0
        return torch.from_numpy(self.x[index]).view(-1, 3, 4)


# ------------------------------------------------------------------------------------------------------- backbones


def test_a_backbone_learns_at_its_own_rate_and_a_frozen_layer_not_at_all(blobs):
    watch = Recorder()
    rates = {"epochs": 3, "lr": 0.01, "backbone_lr": 0.002, "schedule": "linear"}
    schedule = Schedule(**rates)
    torch.manual_seed(2)
    before = Image().state_dict()
    model, _ = image_run(blobs, settings=IMAGE_SETTINGS | rates, watchers=[watch])
    assert watch.groups == [
        [schedule.rate(epoch, step, 5), schedule.backbone_rate(epoch, step, 5)]
        for epoch in range(3)
        for step in range(5)
    ]
    after = model.state_dict()
    for name, weight in before.items():
        frozen = name.startswith("backbone.0")
        assert torch.equal(weight, after[name]) == frozen, name


def test_a_backbone_is_resumed_bit_for_bit(blobs, tmp_path):
    changed = {"schedule": "linear", "precision": "bf16"}
    options = {"settings": IMAGE_SETTINGS | changed}
    whole, _ = image_run(blobs, **options)
    with pytest.raises(KeyError, match="stopped"):
        image_run(blobs, directory=tmp_path, watchers=[Stop(epoch=2)], **options)
    assert same(whole, image_run(blobs, directory=tmp_path, resume=True, **options)[0])


# ------------------------------------------------------------------------------------------------------- precision


class Types(Objective):
    """Remembers what numbers it was given, and in what numbers it computes."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def forward(self, logits, labels, index):
        product = logits @ logits.T
        self.seen.add((logits.dtype, product.dtype))
        return product.square().mean()


@pytest.mark.parametrize(("precision", "inside"), [("32", torch.float32), ("bf16", torch.bfloat16)])
def test_the_model_computes_in_the_precision_and_the_objective_in_float32(blobs, precision, inside):
    model, objective, layers = Image(), Types(), set()
    model.head.register_forward_hook(lambda layer, x, out: layers.add((layer.training, out.dtype)))
    settings = Settings(epochs=1, precision=precision)
    train(model, objective, NoisyRows(blobs), settings, validation=EmbeddingLike(blobs))
    assert layers == {(True, inside), (False, inside)}
    assert objective.seen == {(torch.float32, torch.float32)}
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32, torch.int64}
