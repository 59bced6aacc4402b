from __future__ import annotations

import numpy as np
import pytest
import torch

import lbhash.training.confusion
from lbhash import Hasher
from lbhash.data import EmbeddingSplit
from lbhash.losses import METHODS, Objective
from lbhash.models.hash_model import HashModel
from lbhash.training.confusion import confusion
from lbhash.training.ensemble import StackedHeads, train_together
from lbhash.training.schedule import Schedule


def part_of(x, y):
    return EmbeddingSplit(x, np.arange(len(x)), y)


def agree(together, alone, part):
    """Weights agree up to the rounding of sums, and so do all codes but those next to a sign's change."""
    for (name, found), (_, wanted) in zip(together.state_dict().items(), alone.state_dict().items(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-4, msg=name)
    outputs, expected = together.outputs(part.take(slice(None))), alone.outputs(part.take(slice(None)))
    clear = np.abs(expected) > 1e-2
    assert clear.mean() > 0.9
    assert ((outputs >= 0) == (expected >= 0))[clear].all()


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_each_seed_ends_as_a_run_of_its_own(blobs, method, guided):
    part = part_of(blobs.x, blobs.y)
    hasher = Hasher(16, method, guided, epochs=3, hidden=20, batch_size=32)
    for found, seed in zip(hasher.fit_seeds(part, 4, [3, 0, 8]), [3, 0, 8], strict=True):
        alone = Hasher(16, method, guided, epochs=3, seed=seed, hidden=20, batch_size=32).fit_split(part, 4)
        assert found.seed == seed
        assert found.model_.metadata == alone.model_.metadata
        agree(found.model_, alone.model_, part)


@pytest.mark.parametrize(
    "settings",
    [{"hidden": 0}, {"dropout": 0.0}, {"dropout": 0.3}, {"batch_size": 53}, {"guidance": {"noise": 0.5}}],
)
def test_heads_of_all_shapes(blobs, settings):
    part = part_of(blobs.x, blobs.hot)
    hasher = Hasher(12, "csq", epochs=2, **{"hidden": 9, "batch_size": 64, **settings})
    for found, seed in zip(hasher.fit_seeds(part, 4, [1, 2]), [1, 2], strict=True):
        alone = hasher.set_params(seed=seed).fit_split(part, 4)
        agree(found.model_, alone.model_, part)


def test_seeds_with_rows_of_their_own(blobs):
    """Each ends as the run on its rows; equal rows are shared."""
    chosen = np.arange(len(blobs.x)) % 3 != 0
    parts = [part_of(blobs.x, blobs.y).where(np.roll(chosen, at)) for at in (0, 1)]
    parts.append(parts[1])
    hasher = Hasher(16, "csq", epochs=2, hidden=20, batch_size=32, centers="arranged")
    for found, part, seed in zip(hasher.fit_seeds(parts, 4, [3, 0, 8]), parts, [3, 0, 8], strict=True):
        agree(found.model_, hasher.set_params(seed=seed).fit_split(part, 4).model_, part)


def test_what_is_confused_is_asked_once_for_all_seeds(blobs, monkeypatch):
    asked = []
    monkeypatch.setattr(lbhash.hasher, "confusion", lambda *given: asked.append(given) or confusion(*given))
    part = part_of(blobs.x, blobs.y)
    Hasher(8, epochs=1, hidden=8, centers="arranged").fit_seeds(part, 4, [0, 1, 2])
    assert [(len(given), classes) for given, classes in asked] == [(len(blobs.x), 4)]
    Hasher(8, epochs=1, hidden=8, centers="best").fit_seeds(part, 4, [0, 1])
    assert len(asked) == 1


def test_seeds_differ_and_the_generator_is_left_alone(blobs):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two = Hasher(16, epochs=1, hidden=8).fit_seeds(part_of(blobs.x, blobs.y), 4, [0, 1])
    assert one.method_ == two.method_ == "csq"
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(one.model_.head[0].weight, two.model_.head[0].weight)


def test_the_hook_sees_every_epoch(blobs):
    seen = []

    def look(epoch, models, losses):
        seen.append((epoch, [model.fingerprint() for model in models], losses))

    part = part_of(blobs.x, blobs.y)
    hashers = Hasher(8, epochs=3, hidden=8).fit_seeds(part, 4, [0, 1], after_epoch=look)
    assert [epoch for epoch, *_ in seen] == [0, 1, 2]
    assert seen[-1][1] == [hasher.model_.fingerprint() for hasher in hashers]
    assert len({fingerprint for _, both, _ in seen for fingerprint in both}) == 6
    first, last = np.array([losses for *_, losses in seen])[[0, -1]]
    assert (last < first).all()


def test_the_losses_are_those_that_a_run_logs(blobs, tmp_path):
    losses = []
    part = part_of(blobs.x, blobs.y)
    hasher = Hasher(8, epochs=2, hidden=8, batch_size=48)
    hasher.fit_seeds(part, 4, [0], after_epoch=lambda epoch, models, found: losses.extend(found))
    hasher.fit_split(part, 4, directory=tmp_path, logger="csv")
    logged = np.genfromtxt(tmp_path / "logs" / "metrics.csv", delimiter=",", names=True)["loss"]
    np.testing.assert_allclose(losses, logged, rtol=1e-3)


class Infinite(Objective):
    def __init__(self, task):
        super().__init__()
        self.seed = task.seed

    def forward(self, logits, labels, index):
        return logits.sum() * (float("inf") if self.seed == 7 else 1.0)


def test_a_loss_that_is_not_finite_names_its_seed(blobs):
    with pytest.raises(ValueError, match=r"loss of seed 7 is -?(inf|nan) in epoch 0"):
        Hasher(8, Infinite, False, epochs=1).fit_seeds(part_of(blobs.x, blobs.y), 4, [0, 7])


def test_what_does_not_go_together_is_refused(blobs):
    part = part_of(blobs.x, blobs.y)
    with pytest.raises(ValueError, match="1 models, 0 objectives and 2 seeds"):
        train_together([HashModel(12, 8)], [], part, Schedule(), [0, 1])
    with pytest.raises(ValueError, match="they must be of one shape"):
        StackedHeads([HashModel(12, 8), HashModel(12, 16)])
    with pytest.raises(ValueError, match="seeds is empty"):
        Hasher(8).fit_seeds(part, 4, [])
    with pytest.raises(ValueError, match="2 splits of 100 rows and 3 seeds; there must be one split, or one for every"):
        Hasher(8).fit_seeds([part.where(np.arange(len(part)) < 100)] * 2, 4, [0, 1, 2])
    with pytest.raises(ValueError, match="2 splits of 100 and 101 rows and 2 seeds"):
        Hasher(8).fit_seeds([part.where(np.arange(len(part)) < n) for n in (100, 101)], 4, [0, 1])
    with pytest.raises(ValueError, match="threads is 0"):
        train_together([HashModel(12, 8)], [Objective()], part, Schedule(), [0], threads=0)
