"""The commands without what Linux alone has. macOS and Windows themselves are run by .github/workflows/tests.yml."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.end_to_end

PROGRAM = """
import contextlib, io, os, sys
from pathlib import Path

for name in ("fcntl", "resource"):  # of POSIX
    sys.modules[name] = None
del os.sched_getaffinity, os.nice
read_text = Path.read_text

def without_proc(path, *given, **more):
    if path.parts[1:2] in (("proc",), ("sys",)):
        raise FileNotFoundError(path)
    return read_text(path, *given, **more)

Path.read_text = without_proc

from lbhash.cli import main
from lbhash.utils import system

def run(line):
    sys.argv, printed = ["lbhash", *line.split()], io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, line
    return printed.getvalue()

assert system.usable_cores() == os.cpu_count()
assert system.peak_memory() is None
run("train digits --bits 16 --epochs 2 --seed 0 --out model")
run("encode digits --model model --split base --out codes.parquet")
run("index build digits --model model --split base --out index")
run("index add index digits --split query --model model --upsert")
assert "intact" in run("index verify index")
print(run("search index --model model --data digits --row 100 -k 3 --json"))

from fastapi.testclient import TestClient

from lbhash.service import Settings, create_app

with TestClient(create_app(Settings(model="model", index="index"))) as client:
    assert client.post("/v1/search", json={"queries": [{"id": 100}]}).status_code == 200
"""


def test_nothing_needs_what_linux_alone_has(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "neighbors" in done.stdout
