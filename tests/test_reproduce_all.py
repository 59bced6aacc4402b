"""``lbhash reproduce all``: every experiment with what it can use, and what the command says."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from lbhash.reproduce import Settings, experiments, registry, run_all
from lbhash.reproduce.runs.experiment_settings import command_line
from lbhash.reproduce.runs.sources import Source
from reproduce_tools import split_blobs

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]


@pytest.fixture(scope="module")
def file(blobs, write_parquet, tmp_path_factory):
    x, columns = split_blobs(blobs, label=np.concatenate([blobs.y, blobs.query_y]))
    return str(write_parquet(tmp_path_factory.mktemp("data") / "blobs.parquet", x, **columns))


@pytest.fixture
def only(monkeypatch):
    """A function that makes these all the experiments."""

    def names(*chosen):
        known = {name: experiments()[name] for name in chosen}
        monkeypatch.setattr(registry, "experiments", lambda: known)

    return names


def test_all(only, file, tmp_path, capsys):
    few = ("map", "imagenet", "theory")  # one that trains, one that does not suit the data, one that takes none
    only(*few)
    given = {"epochs": 1, "lr": 0.01, "bits": (16,), "methods": ("dch", "csq")}
    sources = (Source("cifar10", file),)
    settings = Settings(seeds=2, sources=sources, workers=1, runs=tmp_path / "runs", hidden=8, **given)
    found = run_all(settings, tmp_path / "out")
    assert tuple(found) == few
    assert found["imagenet"].startswith("imagenet needs data of 1,000 classes, and cifar10 has 4")
    assert re.search("training .* 8/8 runs", capsys.readouterr().err)
    tables = [part for name in ("map", "theory") for part in found[name].tables(name)]
    expected = {"map.md", "theory.md"} | {f"{part}.{kind}" for part in tables for kind in ("csv", "png")}
    assert {file.name for file in (tmp_path / "out").iterdir()} == expected
    command = "lbhash reproduce map --data cifar10=blobs.parquet --seeds 2 --epochs 1 --lr 0.01 --bits 16"
    command += " --method dch --method csq"
    made = (tmp_path / "out" / "map.md").read_text()
    assert command in made
    assert "Adam at 0.01 with a decay" in made
    trained = [json.loads(run.read_text())["run"] for run in (tmp_path / "runs").glob("cifar10-*.json")]
    assert [run["lr"] for run in trained] == 8 * [0.01]
    theory = (tmp_path / "out" / "theory.md").read_text()
    assert "Made by `lbhash reproduce theory --seeds 2`." in theory
    assert str(tmp_path) not in made + theory
    files = {found.name: found.read_bytes() for found in (tmp_path / "out").iterdir()}
    run_all(settings, tmp_path / "out")  # again, from the runs that are there
    assert {found.name: found.read_bytes() for found in (tmp_path / "out").iterdir()} == files
    assert "training" not in capsys.readouterr().err


def test_an_experiment_gets_what_it_can_use(file):
    settings = Settings(sources=(Source("a", file),), epochs=3, bits=(8,), methods=("csq",))
    assert experiments()["theory"].suited(settings) == Settings()
    assert experiments()["map"].suited(settings) == settings
    assert experiments()["ratio"].suited(settings) == replace(settings, methods=())
    assert command_line("posterior-2bits", Settings(sources=(Source("blobs", file),), seed=4)) == (
        "lbhash reproduce posterior-2bits --data blobs.parquet --seeds 5 --seed 4"
    )


def test_the_command_for_all(only, succeed, json_of, file, tmp_path):
    only("recognition", "imagenet")
    arguments = ["--data", f"cifar10={file}", "--seeds", 1, "--epochs", 1, "--bits", 8, "--method", "csq"]
    arguments += ["--workers", 1, "--out", tmp_path / "out"]
    out, _ = succeed("reproduce", "all", *arguments)
    assert "imagenet was left out: imagenet needs data of 1,000 classes" in out
    assert f"are in {tmp_path / 'out'}" in out
    assert list((tmp_path / "out" / "runs").glob("cifar10-csq_d-8bits-1epochs-seed0-*.json"))
    held = json_of("reproduce", "all", *arguments)
    assert [made["name"] for made in held["experiments"]] == ["recognition"]
    assert list(held["left_out"]) == ["imagenet"]
