"""What is released: a wheel and a source distribution that hold all that the program needs."""

import json
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml

import lbhash

ROOT = Path(__file__).parents[1]
UNTRIED = {"dev", "docs", "timm"}
"""Extras of those who work on lbhash, and the one whose torchvision must fit the build of PyTorch."""


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_workflows_and_hooks_run_what_is_there():
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    files = [*(ROOT / ".github" / "workflows").iterdir(), ROOT / ".pre-commit-config.yaml"]
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert all(yaml.safe_load(text) for text in texts)
    assert {"lint", "install"} <= set(re.findall(r"make (\w+)", " ".join(texts))) <= targets
    assert (ROOT / ".ci" / "run").exists()


def test_every_file_says_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    read = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff", "README.md")}
    pythons = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert project["requires-python"] == f">={pythons[0]}"
    said = f"Version {lbhash.__version__}. Python {pythons[0]} to {pythons[-1]}. Apache License 2.0"
    badges = (ROOT / "docs" / "badges.svg").read_text(encoding="utf-8")
    assert f"<title>{said}</title>" in badges
    assert f"![{said}]" in read["README.md"]
    assert {lbhash.__version__, f"{pythons[0]} to {pythons[-1]}"} <= set(re.findall(">([^<]+)</text>", badges))
    assert re.search(r"^## (\S+)", read["CHANGELOG.md"], re.MULTILINE)[1] == lbhash.__version__
    assert yaml.safe_load(read["CITATION.cff"])["version"] == lbhash.__version__


def test_every_extra_is_tried_in_a_fresh_environment():
    versions = runpy.run_path(str(ROOT / ".ci" / "versions"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {one for names in versions["USES"] for one in names.split(",")} == set(extras) - UNTRIED | {"core"}


@pytest.mark.slow
def test_the_wheel_is_made_from_the_source_and_runs_the_demo(tmp_path):
    tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
    source = tmp_path / "source"
    for name in tracked:
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", source)
    (wheel,), (sdist,) = (list((tmp_path / "dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    assert {name.removeprefix("src/") for name in tracked if name.startswith("src/")} <= in_wheel
    assert "lbhash/py.typed" in in_wheel
    with tarfile.open(sdist) as opened:
        assert {"README.md", "LICENSE", "pyproject.toml"} <= {name.partition("/")[2] for name in opened.getnames()}
    again = tmp_path / "again"
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", again, sdist)
    (from_sdist,) = again.iterdir()
    assert set(zipfile.ZipFile(from_sdist).namelist()) == in_wheel
    # Installed without the checkout; the packages that it depends on are those of this environment.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
    installed = next((tmp_path / "env").glob("lib/python3*/site-packages"))
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", installed, wheel)
    here = [path for path in sys.path if "site-packages" in path]
    (installed / "here.pth").write_text("\n".join(here))
    python = next((tmp_path / "env" / "bin").glob("python3"))
    where = run(python, "-c", "import lbhash; print(lbhash.__file__)", cwd=tmp_path)
    assert where.startswith(str(installed))
    printed = run(python, "-m", "lbhash", "demo", cwd=tmp_path)
    assert "csq_d" in printed
    assert (tmp_path / "demo" / "report.html").exists()


@pytest.mark.slow
def test_what_the_containerfile_copies_is_enough(tmp_path):
    """Its steps without a container: the files that it copies make a wheel, and the service has its options."""
    steps = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text(encoding="utf-8")).splitlines()
    for step in steps:
        if step.startswith("COPY "):
            *sources, target = step.split()[1:]
            for source in sources:
                into = tmp_path / target.lstrip("/")
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                into.mkdir(parents=True, exist_ok=True) if target.endswith("/") else None
                copy(ROOT / source, into)
        elif step.startswith("HEALTHCHECK "):
            compile(re.search(r'"-c", "(.*)"\]', step)[1], "HEALTHCHECK", "exec")
    (install,) = (step for step in steps if "pip install" in step)
    assert "--constraint /src/constraints.txt '/src[serve]'" in install
    (entry,) = (step for step in steps if step.startswith("ENTRYPOINT "))
    assert re.findall(r'"([^"]*)"', entry) == ["lbhash", "serve", "--host", "0.0.0.0"]
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "-w",
        tmp_path / "out",
        tmp_path / "src",
    )
    (wheel,) = (tmp_path / "out").iterdir()
    assert "lbhash/service/static/index.html" in zipfile.ZipFile(wheel).namelist()
    assert "lbhash/cli/app.py" in zipfile.ZipFile(wheel).namelist()


CORE = (
    *("app_connections", "app_workers", "codefile", "codes", "image_data", "images", "imports", "interop"),
    *("index_real", "index_crash", "index_damage", "index_postings", "index_states"),
    *("lower_bound", "neighbors", "ranking", "utils"),
)
"""Test files that train nothing."""


@pytest.mark.slow
def test_what_encodes_and_serves_needs_no_pytorch(tmp_path):
    """A model that was trained here encodes, is searched, evaluated and served by an install of ``lbhash[serve]``."""
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*install, f"lbhash[serve] @ {wheel.as_uri()}")
    size = sum(file.stat().st_size for file in (tmp_path / "env").rglob("*") if file.is_file())
    assert size < 700e6
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    np.savez(tmp_path / "d.npz", embeddings=(rng.normal(size=(3, 8))[y] + rng.normal(size=(300, 8)) / 5), labels=y)
    data = ("d.npz", "--protocol", "holdout")
    run(sys.executable, "-m", "lbhash", "train", *data, "--epochs", "5", "--bits", "16", "--out", "m", cwd=tmp_path)

    def lbhash(*words):
        return run(python, "-m", "lbhash", *words, cwd=tmp_path)

    for split in ("base", "query"):
        lbhash("encode", "--model", "m", *data, "--split", split, "--out", f"{split}.parquet")
    found = json.loads(lbhash("evaluate", "--queries", "query.parquet", "--base", "base.parquet", "--json"))
    assert found["map"] == pytest.approx(json.loads((tmp_path / "m" / "metrics.json").read_text())["by_bits"]["map"])
    lbhash("index", "build", "--codes", "base.parquet", "--out", "index")
    search = ("search", "index", "--model", "m", "--data", "d.npz", "--row", "4", "--json")
    (query,) = json.loads(lbhash(*search))["queries"]
    assert [one["label"] for one in query["neighbors"]] == [1] * 10
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, "-m", "lbhash", "serve", "index", "--model", "m", "--port", str(port)]
    with subprocess.Popen([*map(str, command)], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as service:
        url, body = (
            f"http://127.0.0.1:{port}/v1/search",
            json.dumps({"queries": [{"code": query["code"]}], "k": 3}).encode(),
        )
        asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        for _ in range(600):
            assert service.poll() is None, service.stderr.read()
            with suppress(urllib.error.URLError), urllib.request.urlopen(asked) as answer:
                found = json.load(answer)
                break
            time.sleep(0.1)
        service.terminate()
    assert [one["hamming"] for one in found["answers"][0]["neighbors"]] == [
        one["distance"] for one in query["neighbors"][:3]
    ]
    refused = subprocess.run(
        [python, "-m", "lbhash", "train", "d.npz", "--out", "n"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = "lbhash: error: this needs the package torch: pip install 'lbhash[train]'\n"
    assert (refused.returncode, refused.stderr) == (2, said)
    run(*install, "pytest", "hypothesis", "httpx", "pytest-xdist")
    tests = [f"tests/test_{name}.py" for name in CORE]
    assert " passed" in run(python, "-m", "pytest", "-q", "-n", "logical", *tests, cwd=ROOT)
