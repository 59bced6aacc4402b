"""What is released: a wheel and a source distribution that hold all that the program needs."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


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
