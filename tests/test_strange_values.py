"""What an index may hold of a user's data and Python, JSON, a terminal or a spreadsheet cannot: it stops no search."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lbhash import Hasher, Index
from lbhash.utils.files import write_csv
from lbhash.utils.serialization import json_values
from lbhash.utils.terminal import guard_streams

pytestmark = pytest.mark.end_to_end

LARGE = 2**62


def times(kind):
    return pa.array([LARGE, 0, None], pa.int64()).cast(kind)


def not_utf8():
    limits, content = np.array([0, 2, 3, 5], np.int32).tobytes(), b"\xff\xfea\xc3("
    return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(limits), pa.py_buffer(content)])


STRANGE = {
    "seconds": (times(pa.timestamp("s")), [f"{LARGE} (timestamp[s])", "1970-01-01 00:00:00", None]),
    "zone": (times(pa.timestamp("us", "Mars/Base"))[1:], ["0 (timestamp[us, tz=Mars/Base])", None]),
    "days": (pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32()), [f"{2**31 - 1} (date32[day])", "1970-01-01"]),
    "duration": (times(pa.duration("s")), [f"{LARGE} (duration[s])", "0:00:00", None]),
    "text": (not_utf8(), ["\ufffd\ufffd", "a", "\ufffd("]),
    "dictionary": (pa.DictionaryArray.from_arrays([1, 0], not_utf8()), ["a", "\ufffd\ufffd"]),
    "list": (pa.ListArray.from_arrays([0, 1, 3], not_utf8()), [["\ufffd\ufffd"], ["a", "\ufffd("]]),
    "object": (pa.StructArray.from_arrays([not_utf8()], ["x"]), [{"x": "\ufffd\ufffd"}, {"x": "a"}, {"x": "\ufffd("}]),
    "number": (pa.array([1.5, np.nan, -np.inf]), [1.5, None, None]),
    "large": (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    "map": (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), [[["a", 1]], None]),
    "date": (pa.array([date(2020, 1, 2)]), ["2020-01-02"]),
    "interval": (pa.array([pa.MonthDayNano([1, 2, 3])]), [[1, 2, 3]]),
}


REFUSED = ("seconds", "zone", "days", "duration", "text", "dictionary", "list", "object", "interval")
"""What an index does not take, since it could not return it; its other kinds are ``KEPT``."""
KEPT = [name for name in STRANGE if name not in REFUSED]


@pytest.mark.parametrize("name", STRANGE)
def test_any_column_is_told_in_json(name):
    column, told = STRANGE[name]
    assert json_values(pa.chunked_array([column])) == told
    json.dumps(told, allow_nan=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange") / "model"
    Hasher(8, method="itq").fit(np.random.default_rng(0).normal(size=(40, 8))).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def strange(model, tmp_path_factory):
    """An index with a column of the given kind, and what its values are told as."""

    def made(name):
        column, told = STRANGE[name]
        index = Index.from_hasher(Hasher.from_pretrained(model))
        codes = np.zeros((len(column), 1), np.uint8)
        index.add(codes, metadata={"other": column})
        folder = tmp_path_factory.mktemp(name) / "i"
        index.save(folder)
        return folder, told

    return made


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_returned_is_refused_when_it_is_added(name, strange):
    said = "; one of its texts is not UTF-8|; Python cannot|, which many formats"
    with pytest.raises(ValueError, match=rf"^metadata 'other' holds .*({said})"):
        strange(name)


@pytest.mark.parametrize("name", KEPT)
def test_the_service_returns_what_the_index_holds(name, strange, model, quiet):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from lbhash.service import Settings, create_app

    folder, told = strange(name)
    app = create_app(Settings(model, folder))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        for query in ({"code": "00"}, {"id": 0}):
            answer = client.post("/v1/search", json={"queries": [query]})
            assert answer.status_code == 200, answer.text
            neighbors = answer.json()["answers"][0]["neighbors"]
            assert [one["metadata"]["other"] for one in neighbors] == told
        items = client.post("/v1/items/get", json={"ids": [0]}).json()["items"]
        assert items[0]["metadata"]["other"] == told[0]


@pytest.mark.parametrize("name", KEPT)
def test_commands_return_what_the_index_holds(name, strange, json_of, succeed, tmp_path):
    folder, told = strange(name)
    search = ("search", folder, "--code", "00")
    assert [one["metadata"]["other"] for one in json_of(*search)["queries"][0]["neighbors"]] == told
    assert "nearest to" in succeed(*search)[0]
    succeed(*search, "--out", tmp_path / "o.csv")
    with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as opened:
        cells = [row["other"] for row in csv.DictReader(opened)]
    assert cells == ["" if cell is None else cell if isinstance(cell, str) else json.dumps(cell) for cell in told]
    succeed(*search, "--out", tmp_path / "o.parquet")
    assert pq.read_schema(tmp_path / "o.parquet").field("other").type == STRANGE[name][0].type


def test_encode_refuses_a_column_that_parquet_cannot_hold(model, refuse, tmp_path):
    table = pa.table({"embedding": np.zeros((1, 8)).tolist(), "other": STRANGE["interval"][0]})
    rows, out = tmp_path / "rows.arrow", tmp_path / "o.parquet"
    with pa.ipc.new_file(rows, table.schema) as file:
        file.write_table(table)
    said = refuse("encode", rows, "--model", model, "--metadata", "other", "--out", out)
    assert "metadata 'other' holds month_day_nano_interval, which many formats cannot hold" in said


EVIL = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e"
SHOWN = "\\x1b]0;title\\x07\\x1b[2J\\r\\x9b31m\\u202e"


@pytest.fixture(scope="module")
def evil(model, tmp_path_factory):
    """An index with control characters in ids, labels, and names of columns."""
    index = Index.from_hasher(Hasher.from_pretrained(model))
    index.add(np.zeros((2, 1), np.uint8), [EVIL, "b"], {"label": [EVIL, "=1+1"], EVIL: ["@x", "-5"]})
    folder = tmp_path_factory.mktemp("evil") / "i"
    index.save(folder)
    return folder


def in_a_terminal(*arguments):
    """What a command writes to a terminal of 200 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    program = [sys.executable, "-m", "lbhash", *map(str, arguments)]
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        told = b""
        try:
            while piece := os.read(ours, 1 << 16):
                told += piece
        except OSError:  # its end
            pass
    os.close(ours)
    return told.decode()


def test_no_control_character_of_the_data_reaches_a_terminal(evil):
    shown = in_a_terminal("search", evil, "--code", "00")
    assert shown.count(SHOWN) == 3  # id, label and column
    assert SHOWN in in_a_terminal("info", evil)
    refused = in_a_terminal("search", evil, "--code", "00", "--where", f"{EVIL[-1]} = 3")
    assert "\\u202e" in refused
    for told in (shown, refused):
        assert not set(EVIL[:1] + EVIL[-1]) & set(re.sub(r"\x1b\[[\d;]*m", "", told))


def test_no_cell_of_csv_is_run_by_a_spreadsheet(evil, succeed, tmp_path):
    succeed("search", evil, "--code", "00", "--out", tmp_path / "o.csv")
    with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    name = EVIL.replace("\r", "\n")
    assert {row["label"]: row[name] for row in rows} == {name: "'@x", "'=1+1": "-5"}
    texts = ["=a", "+a", "-a", "@a", "\ta", "\ra", "-1+a", "-1", "+.5e-3", -1.5, "a=b", "", None, "\udcff"]
    write_csv(tmp_path / "t.csv", [["-name"], texts])
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as opened:
        names, cells = csv.reader(opened)
    assert names == ["'-name"]
    as_they_are = ["-1", "+.5e-3", "-1.5", "a=b", "", "", "\\udcff"]
    assert cells == ["'=a", "'+a", "'-a", "'@a", "'\ta", "'\na", "'-1+a", *as_they_are]


def test_streams_that_are_closed_or_know_few_characters(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", None)  # as after >&-
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(written, "ascii"))
    guard_streams()
    print("lost", flush=True)
    print("1–2", file=sys.stderr, flush=True)
    assert written.getvalue() == b"1\\u20132\n"
