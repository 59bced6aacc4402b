from __future__ import annotations

import random
import signal
import time

import numpy as np
import pytest
import torch

from lbhash.codes import pack
from lbhash.data import load_dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.lower_bound import bound
from lbhash.hasher import Hasher, fit_split
from lbhash.losses import Task
from lbhash.losses.csq import CSQ
from lbhash.losses.registry import build_objective
from lbhash.models.hash_model import HashModel
from lbhash.pipeline.train import train_model
from lbhash.training import Settings, Watcher, train
from lbhash.training.batches import ShuffledBatches
from lbhash.training.settings import grouped
from training_tools import PROCESSES, Stop, log_of, part_of

SETTINGS = {"bits": 12, "hidden": 16, "epochs": 4, "batch_size": 32, "seed": 3}


class Watch(Watcher):
    """Remembers what it sees at every step."""

    def __init__(self):
        self.threads, self.epochs = [], []

    def step_done(self, training):
        self.epochs.append(training.epoch)
        self.threads.append(torch.get_num_threads())


def fitted(blobs, *, watchers=(), folder=None, resume=False, **settings):
    hasher = Hasher(**grouped(**{"recipe": "paper", **SETTINGS, **settings}))
    return fit_split(hasher, part_of(blobs), 4, directory=folder, resume=resume, watchers=watchers)


def assert_same_model(left, right):
    np.testing.assert_array_equal(left.train_codes_, right.train_codes_)
    a, b = left.model_.weights, right.model_.weights
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert left.model_.fingerprint() == right.model_.fingerprint()


# ------------------------------------------------------------------------------------------------ the same again


@pytest.mark.parametrize("method", ["dsdh", "jmlh"])  # one with a memory, one that draws codes
def test_a_seed_decides_the_codes_whether_a_run_is_stopped_or_not(blobs, tmp_path, method):
    whole = fitted(blobs, method=method)
    torch.rand(7)
    with pytest.raises(KeyError, match="stopped"):
        fitted(blobs, method=method, folder=tmp_path, watchers=[Stop(epoch=2)])
    (tmp_path / "checkpoints" / ".last.ckpt.a1b2c3d4.ckpt").write_bytes(b"half of i")
    watch = Watch()
    resumed = fitted(blobs, method=method, folder=tmp_path, resume=True, watchers=[watch])
    assert sorted(set(watch.epochs)) == [2, 3]
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]
    assert_same_model(whole, resumed)
    other = fitted(blobs, method=method, seed=4)
    assert not np.array_equal(whole.train_codes_, other.train_codes_)


def test_a_checkpoint_is_not_used_without_resume(blobs, tmp_path):
    fitted(blobs, folder=tmp_path, seed=8)
    watch = Watch()
    assert_same_model(fitted(blobs), fitted(blobs, folder=tmp_path, watchers=[watch]))
    assert sorted(set(watch.epochs)) == [0, 1, 2, 3]
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_resuming_with_other_settings_is_refused(blobs, tmp_path):
    fitted(blobs, folder=tmp_path, epochs=1)
    before = (tmp_path / "checkpoints" / "last.ckpt").read_bytes()
    others = {"epochs": 5, "lr": 0.01, "bits": 13, "hidden": 0, "method": "dch", "centers": "random", "seed": 4}
    others |= {"schedule": "cosine", "backbone_lr": 1e-5, "precision": "bf16"}
    others |= {"monitor": "ratio", "validation": 0.2, "batch_size": 16, "dropout": 0.25}
    others |= {"options": {"lam": 0.5}, "guidance": {"mode": "replace"}}
    for name, value in others.items():
        with pytest.raises(ValueError, match=f"^{name} is .*, and the checkpoint in .* was made with .*; resume with"):
            fitted(blobs, folder=tmp_path, resume=True, **{"epochs": 1, name: value})
    with pytest.raises(ValueError, match=r"^method is 'csq', and the checkpoint in .* was made with 'csq_d'; resume"):
        fitted(blobs, folder=tmp_path, resume=True, epochs=1, pull="none")
    assert (tmp_path / "checkpoints" / "last.ckpt").read_bytes() == before


def test_resuming_with_as_many_other_rows_is_refused(blobs, tmp_path):
    fitted(blobs, folder=tmp_path, epochs=1)
    part = EmbeddingSplit(blobs.x + np.float32(1e-3), np.arange(160), blobs.y)
    with pytest.raises(ValueError, match=r"^fingerprint of the rows is '\w{16}', and the checkpoint in"):
        fit_split(
            Hasher(**grouped(**{**SETTINGS, "recipe": "paper", "epochs": 1})), part, 4, directory=tmp_path, resume=True
        )


def test_numpys_numbers_in_options_are_resumed(blobs, tmp_path):
    given = {"options": {"lam": np.float64(0.25)}, "guidance": {"weight": np.float32(0.5)}, "lr": np.float32(0.01)}
    whole = fitted(blobs, folder=tmp_path, epochs=1, **given)
    plain = {"options": {"lam": 0.25}, "guidance": {"weight": 0.5}, "lr": float(np.float32(0.01))}
    assert_same_model(whole, fitted(blobs, folder=tmp_path, epochs=1, resume=True, **plain))


def test_a_model_in_evaluation_mode_is_trained_all_the_same(blobs):
    part, codes = part_of(blobs), []
    task = Task(8, 4, torch.from_numpy(blobs.y), 2.0 * (torch.rand(4, 8) > 0.5) - 1, epochs=1)
    for training in (True, False):
        torch.manual_seed(5)
        model, objective = HashModel(12, 8, 16), build_objective("csq", task)
        train(model.train(training), objective.train(training), part, Settings(epochs=1))
        codes.append(model.encoder().fingerprint())
        assert not model.training
    assert codes[0] == codes[1]


def test_the_end_of_training_is_told_once(blobs):
    ended = []

    class Ends(CSQ):
        def end_training(self):
            assert not self.training
            ended.append(self)

    for pull in ("surrogate", "none"):
        ended.clear()
        fitted(blobs, epochs=2, method=Ends, pull=pull)
        assert len(ended) == 1


# --------------------------------------------------------------------------------------------------- real kills


def train_digits(folder, method, epochs, **more):
    """Train, or go on from the folder's checkpoint."""
    settings = {"bits": 16, "hidden": 16, "batch_size": 32, "epochs": epochs, "method": method, **more}
    settings |= {"progress": False, "baselines": False}
    metrics = train_model(load_dataset("digits"), folder, resume=True, **settings)
    metrics.pop("train_seconds")
    return metrics, Hasher.from_pretrained(folder).model_.fingerprint()


def kill_after(checkpoints, delay, folder, *arguments, **settings):
    """Start a training, kill it so many seconds after so many new checkpoints, and say how many epochs were done."""
    last = folder / "checkpoints" / "last.ckpt"
    stamps = {last.stat().st_mtime_ns} if last.exists() else {None}
    process = PROCESSES.Process(target=train_digits, args=(folder, *arguments), kwargs=settings)
    process.start()
    while len(stamps) <= checkpoints and process.is_alive():
        time.sleep(0.002)
        if last.exists():
            stamps.add(last.stat().st_mtime_ns)
    time.sleep(delay)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the training was over before it could be killed"
    return torch.load(last, weights_only=True)["epoch"] + 1 if last.exists() else 0


@pytest.mark.slow
def test_a_killed_process_keeps_the_same_best_epoch(tmp_path):
    settings = {"monitor": "map", "schedule": "linear"}
    assert 3 <= kill_after(3, 0.02, tmp_path / "killed", "dsdh", 6, **settings) < 6
    found = train_digits(tmp_path / "killed", "dsdh", 6, **settings)
    assert found == train_digits(tmp_path / "whole", "dsdh", 6, **settings)
    assert found[0]["training"]["monitor"] == "map"
    epochs = [row["epoch"] for row in log_of(tmp_path / "killed")]
    assert epochs[-1] == "5"
    assert len(epochs) == len(set(epochs)) >= 5  # the kill may fall between a checkpoint and its line


# --------------------------------------------------------------------------------------------------------- logs


def test_the_log_of_a_resumed_run_has_each_epoch_once(blobs, tmp_path):
    fitted(blobs, folder=tmp_path / "whole")
    with pytest.raises(KeyError):
        fitted(blobs, folder=tmp_path / "stopped", watchers=[Stop(epoch=2)])
    assert [row["epoch"] for row in log_of(tmp_path / "stopped")] == ["0", "1"]
    fitted(blobs, folder=tmp_path / "stopped", resume=True)
    assert log_of(tmp_path / "stopped") == log_of(tmp_path / "whole")
    assert len(log_of(tmp_path / "whole")) == 4


def test_the_logged_bound_is_that_of_the_codes(blobs, tmp_path):
    class Codes(Watcher):
        def __init__(self):
            self.outputs, self.rows = [], []

        def epoch_began(self, training):
            training.model.register_forward_hook(lambda model, x, out: self.outputs.append(out.detach()))

        def step_done(self, training):
            self.rows.append(training.index)

    codes = Codes()
    fitted(blobs, folder=tmp_path, epochs=1, watchers=[codes])
    assert len(codes.outputs) == len(codes.rows)
    found = bound(pack(torch.cat(codes.outputs).numpy()), blobs.y[torch.cat(codes.rows).numpy()], bits=12)
    (row,) = log_of(tmp_path)
    assert float(row["inter"]) == found.inter
    assert float(row["intra"]) == found.intra
    assert float(row["ratio"]) == pytest.approx(found.ratio)


# -------------------------------------------------------------------------------------------- batches and schedule


@pytest.mark.parametrize(
    ("rows", "size", "lengths"),
    [(10, 4, [4, 4, 2]), (9, 4, [4, 5]), (8, 4, [4, 4]), (3, 4, [3]), (1, 4, [1]), (5, 4, [5]), (5, 2, [2, 3])],
)
def test_every_row_is_seen_once_an_epoch(rows, size, lengths):
    batches = ShuffledBatches(rows, size, seed=0)
    orders = []
    for epoch in (0, 1, 0):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert [len(batch) for batch in drawn] == lengths
        assert len(batches) == len(lengths)
        orders.append(np.concatenate(drawn))
        assert np.sort(orders[-1]).tolist() == list(range(rows))
    np.testing.assert_array_equal(orders[0], orders[2])
    if rows > 5:
        assert not np.array_equal(orders[0], orders[1])
        assert not np.array_equal(orders[0], np.concatenate(list(ShuffledBatches(rows, size, seed=1))))


# ---------------------------------------------------------------------------------------------- what it leaves alone


def test_training_leaves_the_callers_state_alone(blobs):
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002
    state, numpys, threads = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()  # noqa: NPY002
    python = random.getstate()
    try:
        torch.set_num_threads(3)
        watch = Watch()
        fitted(blobs, epochs=1, watchers=[watch])
        assert set(watch.threads) == {1}
        with pytest.raises(KeyError, match="stopped"):
            fitted(blobs, watchers=[Stop(epoch=0)])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpys)  # noqa: NPY002
    assert random.getstate() == python


def test_the_device_is_checked(blobs, tmp_path):
    with pytest.raises(ValueError, match="device is 'abacus', which cannot be used here: "):
        fitted(blobs, device="abacus", folder=tmp_path / "out")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device is 'cuda', which cannot be used here: "):
            fitted(blobs, device="cuda", folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_no_number_stops_the_training(blobs):
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) in epoch 0; a smaller lr may help"):
        fitted(blobs, lr=1e30, pull="none", method="dsdh")


def test_one_training_row():
    part = EmbeddingSplit(np.ones((1, 3), np.float32), np.array([0]), np.array([0]))
    task = Task(8, 1, torch.tensor([0]), torch.ones(1, 8), epochs=1)
    model = HashModel(3, 8, 0)
    train(model, build_objective("hashnet", task), part, Settings(epochs=1))
    assert model.encoder().encode(part.take(slice(None))).shape == (1, 1)
    assert not model.training
