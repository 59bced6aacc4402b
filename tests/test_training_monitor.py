"""Which epoch is kept, when a training ends early, and that a kill changes neither."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lbhash import evaluate
from lbhash.codes import pack
from lbhash.data.holdout import hold_out
from lbhash.evaluation.lower_bound import bound
from lbhash.hasher import Hasher, fit_split
from lbhash.losses.csq import CSQ
from lbhash.training.checkpoints import write_checkpoint
from lbhash.training.epoch_metrics import EncodedRows, evaluate_epoch, packed
from lbhash.training.settings import grouped
from training_tools import Recorder, Stop, log_of, part_of

SETTINGS = {"bits": 12, "hidden": 16, "epochs": 8, "batch_size": 32, "seed": 3, "lr": 0.01}


class Turncoat(CSQ):
    """Learns for three epochs, and unlearns from then on: the loss is the same, and its gradient the other way."""

    def begin_epoch(self, epoch):
        self.unlearns = epoch >= 3

    def forward(self, logits, labels, index):
        loss = super().forward(logits, labels, index)
        return 2 * loss.detach() - loss if self.unlearns else loss


class Collapsing(CSQ):
    """Pulls every code to the same one from the third epoch on."""

    def begin_epoch(self, epoch):
        self.collapsed = epoch >= 2

    def forward(self, logits, labels, index):
        return (logits - 5).square().mean() if self.collapsed else super().forward(logits, labels, index)


def fitted(blobs, *, folder=None, resume=False, watchers=(), **changed):
    hasher = Hasher(**grouped(**{**SETTINGS, "method": Turncoat, "pull": "none", **changed}))
    return fit_split(hasher, part_of(blobs), 4, directory=folder, resume=resume, watchers=watchers)


def weights_of(recorder, epoch):
    return {name[6:]: tensor for name, tensor in recorder.weights[epoch].items() if name.startswith("model.")}


def best_of(values, *, lowest=False):
    """The first of the best values, by looking at all of them."""
    best = None
    for epoch, value in enumerate(values):
        if best is None or (value < values[best] if lowest else value > values[best]):
            best = epoch
    return best


# ------------------------------------------------------------------------------------------------ which one is kept


@pytest.mark.parametrize(("monitor", "on_disk"), [("ratio", True), ("map", False), ("loss", True)])
def test_the_best_epochs_weights_are_kept(blobs, tmp_path, monitor, on_disk):
    recorder = Recorder()
    logged = fitted(blobs, folder=tmp_path / "log", monitor=monitor)
    hasher = fitted(blobs, folder=tmp_path / "run" if on_disk else None, monitor=monitor, watchers=[recorder])
    column = {"ratio": "validation_ratio", "map": "validation_map", "loss": "loss"}[monitor]
    values = [float(row[column]) for row in log_of(tmp_path / "log")]
    trained = hasher.trained_
    assert trained == replace(logged.trained_, rows_per_second=trained.rows_per_second)
    assert (trained.epochs, trained.monitor, trained.stopped_early) == (8, monitor, False)
    assert trained.epoch == best_of(values, lowest=monitor == "loss") < 7
    assert trained.value == pytest.approx(values[trained.epoch])
    kept = weights_of(recorder, trained.epoch)
    assert all(np.array_equal(weight, kept[name]) for name, weight in hasher.model_.weights.items())
    last = weights_of(recorder, 7)
    assert not all(torch.equal(tensor, kept[name]) for name, tensor in last.items())
    if on_disk:
        assert sorted(file.name for file in (tmp_path / "run" / "checkpoints").iterdir()) == ["best.ckpt", "last.ckpt"]
        held = torch.load(tmp_path / "run" / "checkpoints" / "best.ckpt", weights_only=True)
        assert (held["epoch"], held["value"], held["monitor"]) == (trained.epoch, trained.value, monitor)


def test_the_objective_is_that_of_the_best_epoch_too(blobs):
    """DSDH's classifier is set from the outputs that it remembers."""

    class Forgetful(Recorder):
        def epoch_ended(self, training):
            super().epoch_ended(training)
            self.objective = training.objective

    recorder = Forgetful()
    hasher = fitted(blobs, method="dsdh", monitor="map", lr=0.03, watchers=[recorder])
    best = recorder.weights[hasher.trained_.epoch]
    assert torch.equal(recorder.objective.memory.outputs, best["objective.memory.outputs"])
    assert hasher.trained_.epoch < 7
    assert not torch.equal(recorder.objective.memory.outputs, recorder.weights[7]["objective.memory.outputs"])


def test_patience_ends_a_training(blobs, tmp_path):
    whole = fitted(blobs, folder=tmp_path / "whole", monitor="ratio", epochs=12)
    values = [float(row["validation_ratio"]) for row in log_of(tmp_path / "whole")]
    ends = next(n for n in range(1, 13) if n == 12 or n - 1 - best_of(values[:n]) >= 2)
    stopped = fitted(blobs, folder=tmp_path / "stopped", patience=2, epochs=12)
    assert (stopped.trained_.epochs, stopped.trained_.stopped_early) == (ends, ends < 12)
    assert stopped.trained_.epoch == best_of(values[:ends])
    assert len(log_of(tmp_path / "stopped")) == ends
    assert ends < 12
    if stopped.trained_.epoch == whole.trained_.epoch:
        assert stopped.model_.fingerprint() == whole.model_.fingerprint()


def test_collapsed_codes_are_never_the_best(blobs, tmp_path):
    for monitor in ("ratio", "map"):
        hasher = fitted(blobs, folder=tmp_path / monitor, method=Collapsing, monitor=monitor, lr=0.05)
        assert hasher.trained_.epoch < 4
        rows = log_of(tmp_path / monitor)
        assert float(rows[-1]["validation_ratio"]) == 0
        assert float(rows[-1]["intra"]) == 0  # D_inter / D_intra is 0 / 0


# ------------------------------------------------------------------------------------------------ the validation rows


def test_where_all_codes_have_collapsed_the_last_epoch_stays(blobs, tmp_path):
    class Collapsed(CSQ):
        def forward(self, logits, labels, index):
            return (logits - 9).square().mean()

    recorder = Recorder()
    hasher = fitted(blobs, method=Collapsed, lr=0.2, patience=4, watchers=[recorder], dropout=0.0)
    trained = hasher.trained_
    assert (trained.epoch, trained.epochs, trained.value, trained.stopped_early) == (3, 4, None, True)
    kept = weights_of(recorder, 3)
    assert all(np.array_equal(weight, kept[name]) for name, weight in hasher.model_.weights.items())


def test_validation_rows_are_cut_from_the_training_rows_and_judged_after_the_epoch(blobs, tmp_path):
    class Codes(Recorder):
        """Encodes the validation rows after every epoch."""

        def __init__(self, held):
            super().__init__()
            self.held, self.codes = held, []

        def epoch_ended(self, training):
            self.codes.append(training.model.encoder().encode(self.held.take(slice(None))))

    part = part_of(blobs)
    rest, held = hold_out(part, 0.25, 3)
    codes = Codes(held)
    hasher = Hasher(**grouped(**SETTINGS, monitor="map", validation=0.25))
    fit_split(hasher, part, 4, directory=tmp_path, watchers=[codes])
    assert (len(rest), len(held)) == (120, 40)
    for row, found in zip(log_of(tmp_path), codes.codes, strict=True):
        at = bound(found, held.labels, 75, inter_percentile=10, classes=4, bits=12)
        assert float(row["validation_inter"]) == pytest.approx(at.inter)
        assert float(row["validation_intra"]) == pytest.approx(at.intra)
        collapsed = len(np.unique(found, axis=0)) < 4
        assert float(row["validation_ratio"]) == pytest.approx(0 if collapsed else at.inter / max(at.intra, 1))
        alone = []
        for query in range(len(held)):
            base = np.arange(len(held)) != query
            alone.append(evaluate(found[[query]], held.labels[[query]], found[base], held.labels[base], bits=12).map)
        assert float(row["validation_map"]) == pytest.approx(np.mean(alone))
    np.testing.assert_array_equal(hasher.train_codes_, hasher.encode(blobs.x))  # validation rows among them


def test_the_ratio_without_validation_rows_is_that_of_the_training_codes(blobs, tmp_path):
    hasher = fitted(blobs, folder=tmp_path, monitor="ratio", validation=0)
    values = [float(row["training_ratio"]) for row in log_of(tmp_path)]
    assert hasher.trained_.epoch == best_of(values)
    assert "validation_ratio" not in log_of(tmp_path)[0]


@pytest.mark.parametrize(
    ("settings", "rows"), [({"monitor": "map"}, 144), ({"patience": 9}, 144), ({"monitor": "loss"}, 160), ({}, 160)]
)
def test_what_a_monitor_needs_is_taken_where_it_is_not_given(blobs, settings, rows):
    hasher = Hasher(**grouped(**{**SETTINGS, "epochs": 1}, **settings)).fit(blobs.x, blobs.y)
    assert hasher.model_.metadata["training_rows"] == rows


# ---------------------------------------------------------------------------------------------------- stopped, resumed


def test_a_stopped_run_comes_to_the_same_epoch(blobs, tmp_path):
    run = {"monitor": "ratio", "patience": 3, "epochs": 20}
    whole = fitted(blobs, folder=tmp_path / "whole", **run)
    assert whole.trained_.stopped_early
    for stop in (0, 1, whole.trained_.epoch, whole.trained_.epoch + 2):
        with pytest.raises(KeyError, match="stopped"):
            fitted(blobs, folder=tmp_path / "killed", resume=True, watchers=[Stop(stop)], **run)
    for left in (1, None):  # the second time there is nothing left to run
        resumed = fitted(blobs, folder=tmp_path / "killed", resume=True, **run)
        assert resumed.model_.fingerprint() == whole.model_.fingerprint()
        speed = resumed.trained_.rows_per_second
        assert (speed is None) == (left is None)
        assert resumed.trained_ == replace(whole.trained_, rows_per_second=speed)
    assert log_of(tmp_path / "killed") == log_of(tmp_path / "whole")


def test_a_kill_between_the_two_checkpoints(blobs, tmp_path, monkeypatch):
    """The best weights are there, and the state that tells of them is not."""
    whole = fitted(blobs, monitor="ratio", folder=tmp_path / "whole")
    best, kept = whole.trained_.epoch, torch.save

    def save(value, path):
        if value.get("epoch") == best and "adam" in value:
            raise KeyError("killed")
        kept(value, path)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", save)
        with pytest.raises(KeyError, match="killed"):
            fitted(blobs, monitor="ratio", folder=tmp_path / "killed")
    assert torch.load(tmp_path / "killed" / "checkpoints" / "best.ckpt", weights_only=True)["epoch"] == best
    assert torch.load(tmp_path / "killed" / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] == best - 1
    resumed = fitted(blobs, monitor="ratio", folder=tmp_path / "killed", resume=True)
    assert resumed.model_.fingerprint() == whole.model_.fingerprint()
    assert resumed.trained_.epoch == best
    assert log_of(tmp_path / "killed") == log_of(tmp_path / "whole")  # each epoch once


@pytest.mark.parametrize("damage", ["another", "half", "gone"])
def test_a_best_checkpoint_that_is_not_this_runs(blobs, tmp_path, damage):
    best = fitted(blobs, monitor="ratio", folder=tmp_path).trained_.epoch
    file = tmp_path / "checkpoints" / "best.ckpt"
    if damage == "another":
        held = torch.load(file, weights_only=True)
        write_checkpoint(file, {**held, "epoch": best + 1})
        message = rf"best.ckpt in '.*' is not of epoch {best}, the best one of this run; start again without resume"
    else:
        file.write_bytes(file.read_bytes()[:1000])
        if damage == "gone":
            file.unlink()
        message = "the checkpoint in '.*' is damaged or none of lbhash; start again without resume: "
    with pytest.raises(ValueError, match=message) as error:
        fitted(blobs, monitor="ratio", folder=tmp_path, resume=True)
    assert "\n" not in str(error.value)


# --------------------------------------------------------------------------------------------------------- judging


def coded(signs, labels, bits=8):
    return EncodedRows(pack(np.array(signs)), np.array(labels), bits)


APART = coded([[1] * 8] * 3 + [[-1] * 8] * 3, [0, 0, 0, 1, 1, 1])
EQUAL = coded([[1] * 8] * 6, [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("monitor", ["ratio", "map", "loss", None])
def test_codes_on_their_centers_are_judged_by_how_far_apart_these_are(monitor):
    metrics = evaluate_epoch(monitor, 0.5, APART, APART)
    assert metrics.values["ratio"] == math.inf
    assert metrics.values["validation_ratio"] == 8.0
    assert metrics.monitored == {"ratio": 8.0, "map": 1.0, "loss": 0.5, None: None}[monitor]


def test_equal_codes_are_worth_nothing():
    for monitor in ("ratio", "map"):
        metrics = evaluate_epoch(monitor, 0.5, APART, EQUAL)
        assert metrics.values["validation_ratio"] == 0
        assert metrics.monitored is None
    assert math.isnan(evaluate_epoch(None, 0.5, EQUAL, None).values["ratio"])
    assert evaluate_epoch("ratio", 0.5, EQUAL, None).monitored is None
    assert evaluate_epoch("loss", 0.5, EQUAL, None).monitored == 0.5


def test_a_map_without_relevant_rows_is_no_value():
    alone = coded([[1] * 8, [-1] * 8], [0, 1])
    metrics = evaluate_epoch("map", 0.5, APART, alone)
    assert metrics.values["validation_map"] == 0
    assert metrics.monitored is None


def test_classes_that_share_codes_have_collapsed():
    """Three classes on two codes, of which the second is shared: most pairs are far apart, and D_intra is 0."""
    shared = coded([[1] * 8] * 2 + [[-1] * 8] * 4, [0, 0, 1, 1, 2, 2])
    assert evaluate_epoch("ratio", 0.5, APART, shared).monitored is None
    assert evaluate_epoch("map", 0.5, shared, shared).monitored is None


@settings(deadline=None)
@given(npst.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 40)), elements=st.floats(width=32)))
def test_codes_are_packed_as_everywhere(logits):
    logits = np.where(np.isnan(logits), -1, logits)
    np.testing.assert_array_equal(packed(torch.from_numpy(logits)).numpy(), pack(logits))


# ---------------------------------------------------------------------------------------------------- the command


def test_the_command_keeps_the_best_epoch(tmp_path, succeed, json_of, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("--bits", 12, "--hidden", 16, "--epochs", 5, "--monitor", "map", "--schedule", "cosine")
    training = json_of("train", "digits", *arguments, "--out", "m")["training"]
    rows = log_of(tmp_path / "m")
    values = [float(row["validation_map"]) for row in rows]
    assert training == {
        "epoch": best_of(values),
        "epochs": 5,
        "monitor": "map",
        "value": pytest.approx(max(values)),
        "stopped_early": False,
    }
    out, _ = succeed("train", "digits", *arguments, "--patience", 1, "--out", "n")
    assert " was kept: map 0." in out
    assert ("training ended early" in out) == (len(log_of(tmp_path / "n")) < 5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--precision", "16", "--device", "cpu"), "precision is '16' and device 'cpu', and there is no GPU in use"),
    ],
)
def test_the_command_refuses(tmp_path, command, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    status, out, errors = command(
        "train", "digits", "--bits", 8, "--hidden", 0, "--epochs", 1, "--out", "m", *arguments
    )
    assert status == 2
    assert out == ""
    assert errors.count("\n") == 1
    assert said in errors
    assert not (tmp_path / "m").exists()
