"""Processes that train one model do what one process does with batches of as many times the rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from distributed_run import (
    draw_dropout,
    end_with_the_first_ones_statistics,
    run_all,
    run_rank,
    train_towards_the_first_ones_centers,
)
from lbhash.hasher import Hasher
from lbhash.training.distributed import Place, from_torchrun, is_main_process, whole_batch_norms
from lbhash.training.hardware import training_device
from training_tools import PROCESSES, log_of

pytestmark = pytest.mark.end_to_end

TESTS = Path(__file__).parent
SETTINGS = {"bits": 12, "hidden": 16, "epochs": 2, "seed": 3, "dropout": 0.0, "device": "cpu"}
PATHS = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": PATHS}


def torchrun(processes, *command, **options):
    """Run a command in so many processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.run(
        [*launcher, *map(str, command)], capture_output=True, text=True, timeout=300, env=ENVIRONMENT, **options
    )


def numbers_of(folder):
    return [{name: float(value) for name, value in row.items() if value} for row in log_of(folder)]


def in_processes(processes, out, task, *given):
    """Run a task in so many processes, which say nothing."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    given = (processes, store.port, out, task, *given)
    started = [PROCESSES.Process(target=run_rank, args=(rank, *given)) for rank in range(processes)]
    for process in started:
        process.start()
    for process in started:
        process.join(300)
        process.kill()
    said = "".join((out / f"said-{rank}.txt").read_text() for rank in range(processes))
    assert [process.exitcode for process in started] == [0] * processes, said
    assert said == ""


def alone_and_together(folder, processes, batch_size, runs):
    """Train each run alone, and by so many processes that each take their part of the batch; compare them."""
    one, several = folder / "one", folder / "several"
    one.mkdir()
    several.mkdir()
    run_all(one, {**SETTINGS, "batch_size": batch_size}, runs)
    in_processes(processes, several, run_all, {**SETTINGS, "batch_size": batch_size // processes}, runs)
    for run in runs:
        assert_same_training(one, several, run["name"], processes)


def assert_same_training(one, several, name, processes):
    """The same curves and weights within the rounding of sums; and all processes end with the same weights."""
    for left, right in zip(numbers_of(one / name), numbers_of(several / name), strict=True):
        assert left.keys() == right.keys()
        for column, value in left.items():
            assert right[column] == pytest.approx(value, rel=2e-5), (name, column)
    wanted = torch.load(one / f"{name}-0.pt", weights_only=True)
    found = torch.load(several / f"{name}-0.pt", weights_only=True)
    for kind, tolerances in {"gradients": (1e-4, 1e-7), "weights": (1e-3, 1e-5)}.items():
        assert found[kind].keys() == wanted[kind].keys()
        for key, tensor in wanted[kind].items():
            close = torch.allclose(found[kind][key], tensor, *tolerances)
            assert close, (name, kind, key, (found[kind][key] - tensor).abs().max())
    said = [json.loads((several / f"{name}-{rank}.json").read_text()) for rank in range(processes)]
    assert all(of_rank == said[0] for of_rank in said)
    expected = json.loads((one / f"{name}-0.json").read_text())["trained"]
    if expected["value"] is not None:
        expected["value"] = pytest.approx(expected["value"], rel=1e-4)
    assert said[0]["trained"] == expected
    files = {file.relative_to(several / name).as_posix() for file in (several / name).rglob("*") if file.is_file()}
    assert files <= {"checkpoints/last.ckpt", "checkpoints/best.ckpt", "logs/metrics.csv"}


# ------------------------------------------------------------------------------------------------- the same training

RUNS = [
    {"name": "csq_d", "settings": {"method": "csq_d", "monitor": "map", "validation": 0.2}},
    {"name": "dsdh_d", "settings": {"method": "dsdh"}},
    {"name": "hashnet", "settings": {"method": "hashnet", "pull": "none"}, "rows": 157},  # 48, 48, 48 and 13
]


def test_two_processes_train_as_one_with_twice_the_batch(tmp_path):
    alone_and_together(tmp_path, 2, 48, RUNS)


@pytest.mark.slow
def test_three_processes_and_batches_that_do_not_divide(tmp_path):
    """The last batch is of two rows, fewer than processes; a guidance that replaces its host leaves weights unused."""
    runs = [
        {"name": "dch_d", "settings": {"method": "dch"}, "rows": 146},
        {"name": "greedyhash_d", "settings": {"method": "greedyhash", "guidance": {"mode": "replace"}}, "rows": 146},
        {"name": "patient", "settings": {"method": "dsdh", "patience": 1, "epochs": 6, "lr": 0.05}},
    ]
    alone_and_together(tmp_path, 3, 48, runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "given"),
    [
        (draw_dropout, ()),
        (end_with_the_first_ones_statistics, ()),
        (train_towards_the_first_ones_centers, ("surrogate",)),
        (train_towards_the_first_ones_centers, ("none",)),
    ],
)
def test_what_processes_have_of_their_own_and_in_common(tmp_path, task, given):
    in_processes(2, tmp_path, task, *given)


# ------------------------------------------------------------------------------------------------------ the command

TRAIN = ("-m", "--", "lbhash", "train", "digits", "--bits", 12, "--hidden", 16, "--batch-size", 16, "--device", "cpu")


def model_of(folder):
    return Hasher.from_pretrained(folder).model_.fingerprint()


@pytest.mark.slow
def test_the_command_under_torchrun(tmp_path):
    arguments = ("--epochs", 3, "--monitor", "ratio", "--json")
    done = torchrun(2, *TRAIN, *arguments, "--out", tmp_path / "torchrun")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)  # of one process
    assert metrics == json.loads((tmp_path / "torchrun" / "metrics.json").read_text())
    assert done.stderr.count("epochs") <= done.stderr.count("csq")  # one bar


@pytest.mark.slow
def test_killed_processes_resume_bit_for_bit(tmp_path):
    arguments = ("--epochs", 8, "--method", "dbdh", "--monitor", "ratio", "--resume", "--json")
    done = torchrun(2, *TRAIN, *arguments, "--out", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("training begins anew") == 1
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, *map(str, (*TRAIN, *arguments, "--out", tmp_path / "killed"))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT, start_new_session=True
    )
    last = tmp_path / "killed" / "checkpoints" / "last.ckpt"
    stamps = set()
    while len(stamps) < 3 and process.poll() is None:
        if last.exists():
            stamps.add(last.stat().st_mtime_ns)
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert torch.load(last, weights_only=True)["epoch"] < 7, "the training was over before it could be killed"
    done = torchrun(2, *TRAIN, *arguments, "--out", tmp_path / "killed")
    assert done.returncode == 0, done.stderr
    assert model_of(tmp_path / "killed") == model_of(tmp_path / "whole")
    assert log_of(tmp_path / "killed") == log_of(tmp_path / "whole")


@pytest.mark.slow
def test_processes_end_together(tmp_path):
    """A mistake of all of them is said, and torchrun ends; so it does if one of them is killed."""
    done = torchrun(
        2, *TRAIN, "--epochs", 1, "--lr", 1e30, "--method", "dsdh", "--pull", "none", "--out", tmp_path / "x"
    )
    assert done.returncode == 1
    assert "lbhash: error: the loss is nan in epoch 0; a smaller lr may help\n" in done.stderr
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, *map(str, (*TRAIN, "--epochs", 100_000, "--out", tmp_path / "run"))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    while not (tmp_path / "run" / "checkpoints" / "last.ckpt").exists():
        assert process.poll() is None
        time.sleep(0.01)
    one, _ = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(one), signal.SIGKILL)
    assert process.wait(120) == 1


# ------------------------------------------------------------------------------------------------ batch normalization


def test_batch_normalization_is_of_all_rows_on_gpus_and_then_as_before():
    """PyTorch synchronizes it on GPUs alone, so that here the layers are looked at, and not what they compute."""
    model = torch.nn.Sequential(torch.nn.Conv1d(3, 6, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(6)))
    own = model[1][0]
    model[1].eval()
    with whole_batch_norms(model, Place(torch.device("cpu"), 0, 2)):
        assert model[1][0] is own
    with whole_batch_norms(model, Place(torch.device("cuda:0"), 0, 2)):
        assert isinstance(model[1][0], torch.nn.SyncBatchNorm)
        assert model[1][0].weight is own.weight
        model.double().train()
        model[1][0].running_mean += 7
    assert model[1][0] is own
    assert own.training
    assert own.running_mean.tolist() == [7.0] * 6
    assert model(torch.ones(2, 3, 4, dtype=torch.float64)).dtype == torch.float64


# --------------------------------------------------------------------------------------------- processes and devices


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, (1, True)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, True)),  # of another launcher: this process trains alone
        ({"RANK": "0", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x"}, (8, True)),
        ({"RANK": "4", "LOCAL_RANK": "0", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x"}, (8, False)),
    ],
)
def test_processes_are_those_that_torchrun_has_started(monkeypatch, environment, found):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (from_torchrun("WORLD_SIZE", 1), is_main_process()) == found


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [training_device("gpu", 2, number) for number in (0, 1)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(ValueError, match=r"^device is 'cuda' in 3 processes, which cannot be used here: PyTorch"):
        training_device("cuda", 3)
