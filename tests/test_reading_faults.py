"""Tables that other tools read wrong, by kind of fault; and the same rows from every format.

What takes all memory or has no end is read in a process of its own, with a limit of both.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_table
from lbhash.data.readers import read_table
from lbhash.data.streamed import NpyRows
from lbhash.pipeline.columns import column_schema, open_columns
from lbhash.trials.trial import kept_folder
from lbhash.tuning.space import read_space
from lbhash.utils.columns import read_columns, read_label_file
from lbhash.utils.parquet import write_parquet
from lbhash.utils.tables import open_table

VECTORS = [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]
BIG = [2**53, 2**53 + 1, None]


def labels_of(table, names="class_names"):
    """The class of each row of a table of one label a row, None if it has none."""
    classes = getattr(table, names)
    return [None if one == -1 else classes[one] if len(classes) else one for one in table.labels.tolist()]


def written(file, content, encoding="utf-8"):
    content = content.encode(encoding)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return file


def put(file, *, embedding=VECTORS, **columns):
    """Write a table by the suffix of its name."""
    embedding = embedding if isinstance(embedding, pa.Array) else pa.array(embedding, pa.list_(pa.float32()))
    table = pa.table({**columns, "embedding": embedding})
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".arrow":
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        lines = [json.dumps(row) for row in table.to_pylist()]
        written(file, "\n".join(lines) if file.suffix == ".jsonl" else f"[{', '.join(lines)}]")
    return file


SCRIPT = """
import resource, sys
from lbhash.data import load_table
load_table({path!r}, **{options!r})
"""


def in_a_process(path, *, gib=2.0, seconds=60, **options):
    """What reading data says, in a process of its own that is refused more memory, and stopped if it has no end."""
    limit = int(gib * 2**30)
    lines = SCRIPT.format(path=str(path), options=options)
    done = subprocess.run(
        [sys.executable, "-c", lines],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode in (0, 1), f"ended by {done.returncode}: {done.stderr[-500:]}"
    return (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else "read"


@pytest.mark.parametrize("end", ['0.3,0.3,"d', '0.3,0.3,"d\n0,0,e\n'])
@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_that_ends_in_a_quote_is_refused(tmp_path, end, packed):
    """As a file that is cut: Arrow and Python's reader take all that follows the quote as one cell."""
    whole = 'x0,x1,label\n0.1,0.2,"a"\n0.2,0.1,"b\nc"\n1,1,5""x\n'
    for text in (whole, whole + end):
        file = tmp_path / ("t.csv.gz" if packed else "t.csv")
        file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        if text == whole:
            assert len(load_table(file)) == 3
        else:
            with pytest.raises(ValueError, match="the last row does not end, perhaps by a quote that is not closed"):
                load_table(file)


def test_a_quote_inside_a_csv_cell_is_no_fault(tmp_path):
    file = written(tmp_path / "t.csv", 'x0,x1,label\n0.1,0.2,5" pipe\n0.2,0.1,b\n')
    assert read_columns(open_table(file), ["label"], "label")["label"].to_pylist() == ['5" pipe', "b"]


def refused_in_a_process(path, *parts, **options):
    line = in_a_process(path, **options)
    assert line.startswith(("ValueError", "TypeError")), line
    for part in parts:
        assert part in line


# ------------------------------------------------------------------------------ labels that are not taken for labels


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("name", ["target", "class", "category"])
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False, None]), [True, False, None]),
        (pa.array([7.0, 3.0, None]), [7, 3, None]),
        (pa.array([7, 3, None], pa.float16()), [7, 3, None]),
        (pa.array(["a", "b", None], pa.string_view()), ["a", "b", None]),
        (pa.array([7, 3, None]).cast(pa.decimal128(20, 0)), [7, 3, None]),
        (pa.array([b"a", b"b", None]), ["a", "b", None]),
    ],
    ids=["Booleans", "whole", "half", "views", "decimals", "bytes"],
)
def test_labels_of_any_type_by_usual_names(tmp_path, suffix, name, column, expected):
    table = read_table(put(tmp_path / f"rows{suffix}", **{name: column}))
    assert labels_of(table) == expected


def test_a_matrix_of_labels_in_a_column(tmp_path):
    """Several labels a row as 0 and 1, which are no class numbers."""
    hot = pa.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], pa.list_(pa.uint8(), 3))
    table = read_table(put(tmp_path / "rows.parquet", labels=hot))
    assert table.labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_measurements_by_a_usual_name_are_no_labels(tmp_path, capsys):
    table = read_table(put(tmp_path / "rows.jsonl", target=[0.5, 1.0, 2.0]))
    assert table.labels is None
    assert "not continuous values; the column is not taken for labels" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------- casts that lose values


@pytest.mark.parametrize("kind", [pa.decimal128(20, 0), pa.decimal256(50, 2)], ids=str)
def test_large_decimals_stay_apart(tmp_path, kind):
    assert labels_of(read_table(put(tmp_path / "rows.parquet", label=pa.array(BIG).cast(kind)))) == BIG


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_large_labels_of_codes_stay_apart(tmp_path, suffix):
    table = read_table(put(tmp_path / "rows.parquet", label=BIG))
    codes = CodeTable(np.zeros((3, 1), np.uint8), 8, np.arange(3), table.labels, class_names=table.class_names)
    write_codes(tmp_path / f"codes{suffix}", codes)
    assert labels_of(read_codes(tmp_path / f"codes{suffix}")) == BIG


def test_a_large_label_and_one_of_another_type(tmp_path):
    """No float has both, so that they are refused and not rounded."""
    for number, kind, label in ((0, pa.int64(), 2**53 + 1), (1, pa.float64(), 2)):
        file = tmp_path / "parts" / f"{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        put(file, label=pa.array([label], kind), embedding=VECTORS[:1])
    with pytest.raises(ValueError, match=str(2**53 + 1)):
        read_table(tmp_path / "parts")


def test_parts_of_a_folder_have_their_own_order_of_columns(tmp_path):
    (tmp_path / "1.csv").write_text("label,x0,x1\n7,0.5,1.5\n")
    (tmp_path / "2.csv").write_text("x1,x0,label\n1.5,0.5,a\n")
    table = read_table(tmp_path)
    assert (labels_of(table), table.embeddings.tolist()) == (["7", "a"], [[0.5, 1.5]] * 2)


# ------------------------------------------------------------------------------------ text that looks like something


@pytest.mark.parametrize(
    "labels",
    [
        ["1e5", "100000"],
        ["1.0", "1.00"],
        ["2024-01-02", "2024-01-02 00:00:00"],
        ["12:30", "12:30:00"],
        ["+7", "7"],
        ["0x10", "16"],
    ],
    ids=str,
)
def test_labels_of_text_stay_apart(tmp_path, labels):
    file = written(tmp_path / "rows.csv", f"label,x0,x1\n{labels[0]},0.5,1.5\n{labels[1]},2.5,3.5\n")
    assert labels_of(read_table(file)) == labels


def test_labels_of_json_that_look_like_dates(tmp_path):
    labels = ["2024-01-02", "2024-01-02 00:00:00"]
    assert labels_of(read_table(put(tmp_path / "rows.jsonl", label=labels, embedding=VECTORS[:2]))) == labels


def test_extra_columns_of_text_stay_text(tmp_path):
    file = written(tmp_path / "rows.csv", "sku,x0,x1\n1e5,0.5,1.5\n100000,2.5,3.5\n")
    assert open_columns(file, ["sku"]).take(np.arange(2))["sku"].to_pylist() == ["1e5", "100000"]


# ------------------------------------------------------------------------------------------------ headers and columns


@pytest.mark.parametrize("first", ["-11,-126,3", "5,6,7", "2,1,0", "1e3,2,3", "7,a,8"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_first_line_that_names_no_columns(tmp_path, suffix, first):
    file = written(tmp_path / f"rows{suffix}", f"{first}\n5,6,7\n8,9,10\n")
    with pytest.raises(ValueError, match="name all columns there"):
        read_table(file)


@pytest.mark.parametrize("first", ["0", "1", "7"])
def test_a_file_of_labels_whose_first_line_is_one(tmp_path, first):
    data = put(tmp_path / "rows.parquet")
    labels = written(tmp_path / "labels.csv", f"{first}\n1\n0\n1\n")
    with pytest.raises(ValueError, match="name all columns there"):
        read_table(data, labels)


def test_spaces_about_names(tmp_path):
    file = written(tmp_path / "rows.csv", "label, x0, x1\na,0.5,1.5\nb,2.5,3.5\n")
    assert read_table(file, embedding_column="x*").embeddings.tolist() == VECTORS[:2]


@pytest.mark.parametrize("names", ["label,x0,x0", "label,label,x0,x1"])
def test_a_column_that_is_there_twice(tmp_path, names):
    cells = ",".join(["1"] * len(names.split(",")))
    with pytest.raises(ValueError, match="2 times; give each a name of its own"):
        read_table(written(tmp_path / "rows.csv", f"{names}\n{cells}\n"), embedding_column="x*")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_columns_of_metadata_or_labels_that_are_there_twice(tmp_path, suffix):
    file, names = tmp_path / f"rows{suffix}", ["sku", "sku", "label", "label"]
    table = pa.table([[1, 2]] * 4, names=names)
    writers = {".csv": pa.csv.write_csv, ".parquet": pq.write_table, ".feather": pa.feather.write_feather}
    writers[suffix](table, file)
    said = r"^{} is '.*', which has the column '{}' 2 times; give each a name of its own$"
    with pytest.raises(ValueError, match=said.format("data", "sku")):
        column_schema(file, ["sku"])
    with pytest.raises(ValueError, match=said.format("labels", "label")):
        read_label_file(file, "labels")


@pytest.mark.parametrize("large", [2**53 + 1, 2**63 + 5, 2**64, 10**400])
def test_an_integer_of_json_is_never_another_one(tmp_path, large):
    rows = [f'{{"n": {number}, "all": [1]}}' for number in (0.5, 1e300, large)]
    with pytest.raises(ValueError, match=rf"^column 'n' is {large} in row 2, which a column of fractions would change"):
        read_rows(written(tmp_path / "rows.jsonl", "\n".join([*rows, ""])), "n")
    with pytest.raises(ValueError, match=r"^column 'all' is 9007199254740993 in row 1, which a column of fractions"):
        read_rows(written(tmp_path / "rows.jsonl", '{"all": [0.5]}\n{"all": [1, 9007199254740993]}\n'), "all")
    with pytest.raises(ValueError, match=r"^data is '.*', whose column 'n' must hold values of one type, integers"):
        read_rows(written(tmp_path / "rows.json", f"[{', '.join(rows)}]"), "n")
    apart = '{"n": 0.5}\n{"n": 9007199254740993}'  # the last row, which has no end of line, is read alone
    with pytest.raises(ValueError, match=r"^column 'n' holds fractions, and integers that they would change"):
        read_rows(written(tmp_path / "rows.jsonl", apart), "n")
    assert read_rows(written(tmp_path / "rows.jsonl", "\n".join([*rows, ""])), "all") == [[1]] * 3
    ours = '{"n": 123456789012345680000}\n{"n": 1e300}\n{"n": 0.5}'  # the first as JavaScript writes a fraction
    assert read_rows(written(tmp_path / "rows.jsonl", ours), "n") == [123456789012345680000.0, 1e300, 0.5]


def read_rows(file, name):
    return read_columns(open_table(file), [name])[name].to_pylist()


def test_a_row_that_is_too_long(tmp_path):
    file = written(tmp_path / "rows.csv", "label,x0,x1\na,0.5,1.5\nb,0.5,1.5,9\n")
    with pytest.raises(ValueError, match="row 1 has 4 cells, and the first line names 3 columns"):
        read_table(file)


def test_a_cell_that_is_no_number(tmp_path):
    file = written(tmp_path / "rows.csv", "label,x0,x1\n" + "a,0.5,1.5\n" * 150_000 + "b,oops,1.5\n")
    with pytest.raises(ValueError, match="column 'x0' is 'oops' in row 150000; it must be a number"):
        read_table(file)


# ---------------------------------------------------------------------------------------------------------- encodings

ROWS = "label,x0,x1\nçat,0.5,1.5\ndög,2.5,3.5\n"
LINES = "".join(json.dumps({"label": one, "embedding": [1, 2.5]}, ensure_ascii=False) + "\n" for one in ("çat", "dög"))


@pytest.mark.parametrize(
    ("suffix", "encoding"),
    [
        *((suffix, encoding) for suffix in (".csv", ".csv.gz", ".tsv") for encoding in ("utf-32", "utf-16-le no mark")),
        *((suffix, encoding) for suffix in (".jsonl", ".json") for encoding in ("utf-16", "utf-16-be", "utf-32")),
        (".jsonl", "utf-16-be no mark"),
    ],
)
def test_encodings(tmp_path, suffix, encoding):
    text = {".tsv": ROWS.replace(",", "\t"), ".jsonl": LINES}.get(suffix, ROWS)
    text = f"[{', '.join(LINES.splitlines())}]" if suffix == ".json" else text
    encoding, *unmarked = encoding.split(" ", 1)
    text = f"\ufeff{text}" if encoding.endswith("e") and not unmarked else text
    table = read_table(written(tmp_path / f"rows{suffix}", text, encoding))
    assert labels_of(table) == ["çat", "dög"]
    assert table.embeddings.shape == (2, 2)


# ----------------------------------------------------------------------------------------------------------- metadata


def put_named(file, label, names):
    """Write labels with metadata that name the classes, as ``datasets`` writes them."""
    feature = {"names": names, "_type": "ClassLabel"}
    if isinstance(label[0], list):
        feature = {"feature": feature, "_type": "Sequence"}
    facts = json.dumps({"info": {"features": {"label": feature}}})
    table = pa.table({"label": label, "embedding": VECTORS[: len(label)]})
    pq.write_table(table.replace_schema_metadata({"huggingface": facts}), file)
    return file


@pytest.mark.parametrize("label", [[0, 3, 1], [0, -2, 1], [[0], [3], [1]]], ids=str)
def test_labels_that_the_metadata_do_not_name(tmp_path, label):
    with pytest.raises(ValueError, match="column 'label' of data"):
        read_table(put_named(tmp_path / "rows.parquet", label, ["a", "b", "c"]))


def test_a_class_number_that_stands_for_no_label(tmp_path):
    table = read_table(put_named(tmp_path / "rows.parquet", [1, -1, 0], ["a", "b", "c"]))
    assert (labels_of(table), list(table.class_names)) == (["b", None, "a"], ["a", "b", "c"])


def test_a_class_that_the_metadata_name_twice(tmp_path):
    with pytest.raises(ValueError, match="twice"):
        read_table(put_named(tmp_path / "rows.parquet", [0, 1, 0], ["a", "a"]))


# ----------------------------------------------------------------------------------------------------- missing is NaN


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([VECTORS[0], None, VECTORS[2]], pa.list_(pa.float32())),
        pa.array([VECTORS[0], None, VECTORS[2]], pa.list_(pa.float32(), 2)),
        pa.array([VECTORS[0], [1, None], VECTORS[2]], pa.list_(pa.float32())),
        pa.array([[1, 2], [1, None], [5, 6]], pa.list_(pa.int8())),
        pa.array(["[0.5, 1.5]", None, "[4.5, 5.5]"]),
    ],
    ids=["list", "fixed", "number", "whole", "text"],
)
def test_a_missing_vector_is_a_damaged_row(tmp_path, column, stream):
    file = put(tmp_path / "rows.parquet", embedding=column, label=[1, 2, 3])
    table = read_table(file, damaged="skip", stream=stream)
    assert table.sound().tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"NaN or infinite in row 1.*\(damaged='skip'\)"):
        read_table(file)


def test_the_first_vector_is_missing(tmp_path):
    file = put(tmp_path / "rows.parquet", embedding=[None, *VECTORS[1:]], label=[1, 2, 3])
    table = read_table(file, damaged="skip", stream=True)
    assert (table.sound().tolist(), table.embeddings.shape) == ([1, 2], (3, 2))


def test_a_row_of_json_without_a_vector(tmp_path):
    text = '{"label": 1, "embedding": [1, 2]}\n{"label": 2}\n{"label": 3, "embedding": null}\n'
    assert read_table(written(tmp_path / "rows.jsonl", text), damaged="skip").sound().tolist() == [0]


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_a_missing_vector_of_a_frame(frame):
    made = frame({"embedding": [VECTORS[0], None, VECTORS[2]], "label": ["a", "b", "c"]})
    assert read_table(made, damaged="skip").sound().tolist() == [0, 2]


# ----------------------------------------------------------------------------------------------------- parts and splits


def save(folder, parts):
    """Write a folder as ``datasets`` saves several splits."""
    (folder / "saved").mkdir()
    for part, rows in parts.items():
        (folder / "saved" / part).mkdir()
        table = pa.table({"embedding": [[float(row), 0.0] for row in rows], "label": [row % 2 for row in rows]})
        with pa.ipc.new_stream(folder / "saved" / part / "data-0.arrow", table.schema) as writer:
            writer.write_table(table)
        state = {"_data_files": [{"filename": "data-0.arrow"}]}
        (folder / "saved" / part / "state.json").write_text(json.dumps(state))
    (folder / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": list(parts)}))
    return folder / "saved"


@pytest.mark.parametrize("names", [("train", "valid"), ("Train", "dev"), ("training", "testing"), ("train", "TEST")])
def test_splits_of_datasets_by_other_names(tmp_path, names):
    table = read_table(save(tmp_path, {names[0]: range(6), names[1]: range(6, 8)}))
    assert table.protocol == "official"
    assert table.test_rows.tolist() == [False] * 6 + [True] * 2


def test_three_published_sets_of_datasets(tmp_path, capsys):
    table = read_table(save(tmp_path, {"train": range(6), "valid": range(6, 8), "test": range(8, 10)}))
    assert np.flatnonzero(table.test_rows).tolist() == [8, 9]
    assert "valid counts as train" in capsys.readouterr().err


def test_files_of_published_sets(tmp_path):
    for part, rows in {"test-00000-of-00001": 2, "train-00000-of-00001": 3}.items():
        put(tmp_path / f"{part}.parquet", embedding=VECTORS[:rows], label=[0, 1, 0][:rows])
    table = read_table(tmp_path)
    assert (table.protocol, table.test_rows.tolist()) == ("official", [True] * 2 + [False] * 3)


def test_parts_that_are_no_splits_together(tmp_path, capsys):
    table = read_table(save(tmp_path, {"train": range(6), "unsupervised": range(6, 8)}))
    assert (len(table), table.has_splits) == (8, False)
    assert "train, unsupervised" in capsys.readouterr().err


def test_a_split_that_is_named_twice_counts_once(tmp_path):
    folder = save(tmp_path, {"train": range(6), "test": range(6, 8)})
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test", "train"]}))
    facts = {"_data_files": [{"filename": "data-0.arrow"}] * 2}
    (folder / "test" / "state.json").write_text(json.dumps(facts))
    assert len(read_table(folder)) == 8


def test_files_beside_those_that_are_read_are_named(tmp_path, capsys):
    put(tmp_path / "a.parquet", label=["a", "b", "c"])
    written(tmp_path / "b.csv", ROWS)
    assert len(read_table(tmp_path)) == 3
    assert "only its .parquet files are read, and not b.csv" in capsys.readouterr().err


def test_files_that_a_system_hides(tmp_path):
    put(tmp_path / "a.parquet", label=["a", "b", "c"])
    (tmp_path / "._a.parquet").write_bytes(b"\0\5\26\7")
    assert labels_of(read_table(tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["dataset_dict.json", "state.json"])
def test_a_saved_folder_that_names_itself(tmp_path, name):
    whole = {"dataset_dict.json": {"splits": ["."]}, "state.json": {"_data_files": [{"filename": "."}]}}
    (tmp_path / name).write_text(json.dumps(whole[name]))
    with pytest.raises(ValueError, match="data is"):
        read_table(tmp_path)


# ------------------------------------------------------------------------------- sizes on the disk and sizes in memory


def huge_labels(rows=20_000, length=500_000):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))


def test_a_text_of_parquet_that_all_rows_share(tmp_path):
    """A file of some hundred bytes, for ten gigabytes of labels."""
    file, label = tmp_path / "rows.parquet", huge_labels()
    zeros = pa.array(np.zeros(len(label), np.float32))
    schema = pa.schema([("label", label.type), ("x0", pa.float32()), ("x1", pa.float32())])
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 20, "store_schema": False}
    with pq.ParquetWriter(file, schema, **options) as writer:
        writer.write_table(pa.table({"label": label, "x0": zeros, "x1": zeros}))
    assert file.stat().st_size < 3000
    refused_in_a_process(file, "column 'label' has a label of 500,000 bytes")


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ["rows.arrow", "rows.feather"])
def test_texts_of_arrow_that_expand(tmp_path, name):
    table = pa.table({"label": ["x" * 5_000] * 100_000, "x0": [0.5] * 100_000, "x1": [0.5] * 100_000})
    pyarrow.feather.write_feather(table, tmp_path / name, compression="zstd", chunksize=10_000)
    assert (tmp_path / name).stat().st_size < 1_000_000
    assert in_a_process(tmp_path / name) == "read"


def test_a_batch_of_arrow_that_is_larger_than_memory(tmp_path, monkeypatch):
    table = pa.table({"label": ["x" * 5_000] * 20_000, "x0": [0.5] * 20_000, "x1": [0.5] * 20_000})
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather", compression="zstd")
    monkeypatch.setattr("lbhash.utils.memory.available_memory", lambda: 50 << 20)
    with pytest.raises(ValueError, match=r"of which a batch would take 95\.\d MiB"):
        read_table(tmp_path / "rows.feather")


def test_a_dictionary_of_arrow(tmp_path):
    label = huge_labels(length=50_000)
    numbers = pa.array(np.zeros(len(label), np.float32))
    table = pa.table({"label": label, "x0": numbers, "x1": numbers})
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather", compression="zstd")
    assert in_a_process(tmp_path / "rows.feather") == "read"


@pytest.mark.end_to_end
def test_long_texts_of_a_packed_file(tmp_path):
    with gzip.open(tmp_path / "rows.csv.gz", "wb", 1) as opened:
        opened.write(b"label,x0,x1\n")
        for _ in range(100):
            opened.write((b"x" * 3990 + b",0.5,1.5\n") * 1000)
    assert in_a_process(tmp_path / "rows.csv.gz") == "read"


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz"])
def test_a_row_without_end(tmp_path, name):
    with gzip.open(tmp_path / name, "wb", 1) as opened:
        opened.write(b'label,x0,x1\n"' if ".csv" in name else b'{"label": "')
        for _ in range(1000):
            opened.write(b"x" * 1_000_000)
    refused_in_a_process(tmp_path / name, "longer than")


@pytest.mark.end_to_end
@pytest.mark.parametrize("rows", [20_000, 2_000_000])
def test_a_quote_that_is_not_closed(tmp_path, rows):
    body = "".join(f"{row % 7},0.5,1.5\n" for row in range(rows))
    file = written(tmp_path / "rows.csv", 'label,x0,x1\n1,0.5,1.5\n"2,0.5,1.5\n' + body)
    refused_in_a_process(file, "perhaps by a quote that is not closed")


def test_a_quote_that_is_closed_late(tmp_path):
    """One label of 300,000 characters made every label as wide."""
    body = "".join(f"{row % 7},0.5,1.5\n" for row in range(30_000))
    file = written(tmp_path / "rows.csv", f'label,x0,x1\n"2,0.5,1.5\n{body}",0.5,1.5\n{body}')
    refused_in_a_process(file, "has a label of", "perhaps by a quote that is not closed")


@pytest.mark.parametrize("name", ["label", "note"])
def test_a_column_of_codes_that_expands(tmp_path, name):
    codes = pa.array([b"a"] * 20_000, pa.binary(1))
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 20, "store_schema": False}
    pq.write_table(pa.table({"code": codes, name: huge_labels()}), tmp_path / "codes.parquet", **options)
    lines = f"""
import lbhash.utils.memory
lbhash.utils.memory.available_memory = lambda: 1 << 30
from lbhash.codes.io import read_codes
try:
    read_codes({str(tmp_path / "codes.parquet")!r})
except (ValueError, OSError) as error:
    print(error)
"""
    limit = (2 << 30, 2 << 30)
    done = subprocess.run(
        [sys.executable, "-c", lines],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    assert f"column '{name}' of 20,000 rows would take 9.3 GiB" in done.stdout, done.stderr[-500:]


def test_an_extra_column_that_expands(tmp_path):
    """Texts that go with the codes are written for each row, which is refused before it is done."""
    file, label = tmp_path / "rows.parquet", huge_labels()
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 20, "store_schema": False}
    pq.write_table(pa.table({"note": label, "x0": pa.array(np.zeros(len(label), np.float32))}), file, **options)
    lines = f"""
import numpy, resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import lbhash.utils.memory
lbhash.utils.memory.available_memory = lambda: 1 << 30
from lbhash.pipeline.columns import open_columns
try:
    open_columns({str(file)!r}, ["note"]).take(numpy.arange(20_000))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60)
    assert "column 'note' of 20,000 rows would take 9.3 GiB" in done.stdout, done.stderr[-500:]


# ------------------------------------------------------------------------------------- errors of a parser, and no file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.json", '[{"label": 1, "embedding": ' + "[" * 200_000 + "]" * 200_000 + "}]"),
        ("rows.jsonl", '{"label": 1, "embedding": ' + "[" * 200_000 + "]" * 200_000 + "}\n"),
        ("rows.jsonl", '{"embedding": [1, 2]}\n{"label": 1, "x": ' + "[" * 20_000 + "]" * 20_000 + "}\n"),
        ("rows.jsonl.gz", '{"embedding": [1, 2]}\n{"label": 1, "x": ' + '{"a":' * 20_000 + "1" + "}" * 20_000 + "}\n"),
        ("rows.csv", 'label,embedding\na,"[1, 2]"\nb,"' + "[" * 200_000 + "]" * 200_000 + '"\n'),
    ],
    ids=["list", "line", "second line", "objects", "cell"],
)
def test_what_is_nested_too_deep(tmp_path, name, text):
    refused_in_a_process(written(tmp_path / name, text), "row ")


def test_metadata_that_are_nested_too_deep(tmp_path):
    table = pa.table({"label": [1, 2, 3], "embedding": VECTORS})
    facts = {"huggingface": "[" * 200_000 + "]" * 200_000}
    pq.write_table(table.replace_schema_metadata(facts), tmp_path / "rows.parquet")
    assert labels_of(read_table(tmp_path / "rows.parquet")) == [1, 2, 3]


def test_a_saved_folder_whose_description_is_nested_too_deep(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(ValueError, match="data is"):
        read_table(tmp_path)


def test_a_space_of_settings_that_is_nested_too_deep(tmp_path):
    file = written(tmp_path / "space.json", '{"lr": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(ValueError, match="space is"):
        read_space(file)


def test_facts_of_codes_that_are_nested_too_deep(tmp_path):
    write_codes(tmp_path / "codes.parquet", CodeTable(np.zeros((3, 1), np.uint8), 8, np.arange(3)))
    table = pq.read_table(tmp_path / "codes.parquet")
    write_parquet(tmp_path / "codes.parquet", table.replace_schema_metadata({"lbhash": "[" * 200_000}))
    with pytest.raises(ValueError, match=r"codes is '.*codes.parquet', which .*damaged"):
        read_codes(tmp_path / "codes.parquet", name="codes")


@pytest.mark.parametrize("name", ["a.parquet", "data.arrow"])
def test_a_pipe_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    if name == "data.arrow":
        (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    refused_in_a_process(tmp_path, "pipe", seconds=20)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz"])
def test_packed_files_that_are_cut(tmp_path, name):
    text = "label,x0,x1\n" + "".join(f"a,{row},{row / 7}\n" for row in range(20_000))
    text = LINES * 20_000 if "json" in name else text
    whole = written(tmp_path / name, text).read_bytes()
    for content in (whole[: len(whole) // 2], text.encode()[:1000]):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"data is .*, which is damaged or no {name[4:]} file"):
            load_table(tmp_path / name)


def test_a_search_in_a_table_that_is_nested_too_deep(tmp_path, lbhash_command, blobs):
    from lbhash import Hasher

    Hasher(bits=8, method="itq").fit(blobs.x).save_pretrained(tmp_path / "model")
    file = written(tmp_path / "rows.jsonl", '{"x": ' + "[" * 5000 + "]" * 5000 + "}\n")
    done = lbhash_command("encode", "--model", tmp_path / "model", file, "--out", tmp_path / "codes.npz")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "64 deep" in done.stderr


# ----------------------------------------------------------------- what is not to be refused, and was read right before


def test_columns_named_by_their_place(tmp_path):
    file = written(tmp_path / "rows.csv", "0,1,2\n5,6,7\n8,9,10\n")
    assert read_table(file).embeddings.tolist() == [[5, 6, 7], [8, 9, 10]]


def test_brackets_in_a_text_are_not_deep(tmp_path):
    file = put(tmp_path / "rows.jsonl", label=["[" * 5000, "}" * 70 + "{" * 70, '\\"' + "[" * 70])
    assert len(set(labels_of(read_table(file)))) == 3


@pytest.mark.parametrize("late", [0, 150_000])
def test_latin_letters(tmp_path, capsys, late):
    rows = "label,x0,x1\n" + "cat,0.5,1.5\n" * late + "dög,2.5,3.5\n"
    assert labels_of(read_table(written(tmp_path / "rows.csv", rows, "latin-1")))[-1] == "dög"
    assert "it is not UTF-8 and read as latin-1" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".json"])
def test_large_labels_stay_apart(tmp_path, suffix):
    assert labels_of(read_table(put(tmp_path / f"rows{suffix}", label=BIG))) == BIG


# -------------------------------------------------------------------------------------- the same rows from every format


def twelve():
    """Twelve rows: embeddings, labels of which two are missing, a text and a number."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(12, 3)).astype(np.float32)
    kinds = ["çat", "dog", None, "a, b", 'say "x"', "7"] * 2
    return vectors, kinds, [f"{row:04}" for row in range(12)], [2**53 + row for row in range(12)]


def table_of_twelve():
    vectors, kinds, codes, numbers = twelve()
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 3)
    return pa.table({"embedding": embedding, "label": kinds, "code": codes, "number": numbers})


def write_text_table(table, file):
    """With a column for each number, and texts in quotes."""
    vectors = np.array(table["embedding"].to_pylist(), np.float32)
    columns = {f"x{at}": vectors[:, at].tolist() for at in range(3)}
    flat = pa.table(columns | {name: table[name] for name in ("label", "code", "number")})
    packed = pa.CompressedOutputStream(str(file), "gzip") if file.suffix == ".gz" else pa.OSFile(str(file), "wb")
    options = pyarrow.csv.WriteOptions(delimiter="\t" if ".tsv" in file.name else ",")
    with packed as opened:
        pyarrow.csv.write_csv(flat, opened, options)


def write_json(table, file):
    rows = table.to_pylist()
    lines = [json.dumps(row) for row in rows]
    written(file, json.dumps(rows) if ".jsonl" not in file.name else "\n".join(lines))


def write_stream(table, file):
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def write_file(table, file):
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def write_folder(table, folder):
    folder.mkdir()
    for at in range(0, 12, 5):
        pq.write_table(table.slice(at, 5), folder / f"part-{at:02}.parquet")


def write_saved(table, folder):
    import datasets

    datasets.Dataset(table).save_to_disk(folder)


def write_arrays(table, file):
    columns = {name: np.array(table[name].to_pylist()) for name in ("code", "number")}
    np.savez(file, embedding=twelve()[0], label=np.array([one or "" for one in twelve()[1]]), **columns)


FORMATS = {
    "rows.parquet": pq.write_table,
    "rows.feather": pyarrow.feather.write_feather,
    "file.arrow": write_file,
    "stream.arrow": write_stream,
    "rows.csv": write_text_table,
    "rows.tsv": write_text_table,
    "rows.csv.gz": write_text_table,
    "rows.json": write_json,
    "rows.jsonl": write_json,
    "rows.jsonl.gz": write_json,
    "folder": write_folder,
    "saved": write_saved,
    "rows.npz": write_arrays,
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_twelve_rows_from_every_format(tmp_path, name):
    vectors, kinds, codes, numbers = twelve()
    FORMATS[name](table_of_twelve(), tmp_path / name)
    table = read_table(tmp_path / name)
    np.testing.assert_array_equal(table.embeddings.astype(np.float32), vectors)
    assert labels_of(table) == kinds
    assert list(table.class_names) == sorted(set(kinds) - {None})
    if name != "rows.npz":
        extra = open_columns(tmp_path / name, ["code", "number"]).take(np.arange(12))
        assert (extra["code"].to_pylist(), extra["number"].to_pylist()) == (codes, numbers)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_same_twelve_rows_from_every_frame(kind):
    vectors, kinds, _, _ = twelve()
    whole = table_of_twelve()
    frame = {"pandas": whole.to_pandas, "polars": lambda: polars.from_arrow(whole), "pyarrow": lambda: whole}[kind]()
    table = read_table(frame)
    np.testing.assert_array_equal(table.embeddings.astype(np.float32), vectors)
    assert labels_of(table) == kinds
    assert list(table.class_names) == sorted(set(kinds) - {None})


def test_a_footer_that_hides_rows(tmp_path):
    """Pyarrow reads a chunk whose stated length is 0 as one without rows, and says nothing."""
    codes = [bytes([row // 256, row % 256]) for row in range(4000)]
    table = pa.table({"code": pa.array(codes, pa.binary(2))})
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=1000, use_dictionary=False, compression="none")
    whole = (tmp_path / "c.parquet").read_bytes()
    size = pq.read_metadata(tmp_path / "c.parquet").row_group(0).column(0).total_compressed_size
    stated = bytes([2 * size & 127 | 128, 2 * size >> 7])  # a zigzag varint of Thrift
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    at = whole.index(stated, whole.index(stated, footer) + 2)  # after total_uncompressed_size
    (tmp_path / "c.parquet").write_bytes(whole[:at] + b"\x80\x00" + whole[at + 2 :])
    assert pq.read_metadata(tmp_path / "c.parquet").num_rows == 4000
    with pytest.raises(ValueError, match=r"says that it has 4,000 rows, and only 3,000 can be read"):
        read_codes(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"says that it has 4,000 rows, and only 3,000 can be read"):
        read_columns(open_table(tmp_path / "c.parquet"), ["code"])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".npy", ".jsonl"])
@pytest.mark.parametrize("change", ["shorter", "same length"])
def test_a_file_that_changes_while_it_is_read(tmp_path, suffix, change):
    file = tmp_path / f"d{suffix}"
    if suffix == ".npy":
        np.save(file, np.zeros((3, 2), np.float32))
    elif suffix == ".csv":
        written(file, "e0,e1\n" + "0.5,1\n" * 3)
    else:
        put(file)
    source, whole = open_table(file), file.read_bytes()
    content = whole[:-3] if change == "shorter" else whole[:-1] + b"\n"
    file.write_bytes(content)
    os.utime(file, ns=(0, 0))  # a change within one tick of the clock cannot be seen
    with pytest.raises(ValueError, match=rf"data is '{file}', which (changed while it was read; try again|is damaged)"):
        source.array("embedding") if suffix == ".npy" else read_columns(source, source.schema.names)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.uint8, ">f8"])
def test_rows_of_an_npy_file_are_those_of_the_array(tmp_path, kind):
    rng = np.random.default_rng(0)
    array = (100 * rng.random((50, 3))).astype(kind)
    np.save(tmp_path / "d.npy", array)
    rows = NpyRows(tmp_path / "d.npy", "data")
    assert (rows.shape, rows.dtype, len(rows), rows.in_order) == (array.shape, array.dtype, 50, True)
    lists = [np.arange(10, 30), np.array([4, 5, 6, 2, 2, 49]), rng.permutation(50)]
    for chosen in [slice(None), slice(3, 40, 7), slice(5, 5), *lists]:
        np.testing.assert_array_equal(rows[chosen], array[chosen])
    np.testing.assert_array_equal(rows[np.int64(7)], array[7])
    os.truncate(tmp_path / "d.npy", 140)
    with pytest.raises(ValueError, match="which changed while it was read"):
        rows[40:]
    np.save(tmp_path / "d.npy", np.asfortranarray(array))
    table = load_table(tmp_path / "d.npy", stream=True)
    np.testing.assert_array_equal(table.embeddings[:], array)


def test_arrow_streams_and_files_of_every_compression(tmp_path):
    table = pa.table({"text": pa.array(["a", "b", "a"] * 99).dictionary_encode(), "n": range(297)})
    for pack in (None, "zstd", "lz4"):
        for new in (pa.ipc.new_file, pa.ipc.new_stream):
            options = pa.ipc.IpcWriteOptions(compression=pack)
            with new(tmp_path / "t.arrow", table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=100)
            batches = open_table(tmp_path / "t.arrow").read(["text", "n"], {})
            assert pa.Table.from_batches(batches).to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (['["a", "b"]', '["b"]', "", "[]"], [["a", "b"], ["b"], [], []]),
        (["['a', 'b']", "['b']", " ['a'] ", "[]"], [["a", "b"], ["b"], ["a"], []]),  # as pandas writes lists
        (["[1, 2]", "[1]", "[2, 1]", ""], [[1, 2], [1], [1, 2], []]),
        (["[UNK]", "[PAD]", "[UNK]", ""], ["[UNK]", "[PAD]", "[UNK]", None]),
    ],
)
def test_lists_of_labels_in_csv(tmp_path, cells, labels):
    vectors = np.arange(8.0).reshape(4, 2)
    frame = pandas.DataFrame({"e0": vectors[:, 0], "e1": vectors[:, 1], "labels": cells})
    frame.to_csv(tmp_path / "d.csv", index=False)
    table = read_table(tmp_path / "d.csv")
    if isinstance(labels[0], list):
        names = np.array(table.class_names)
        assert [names[row.astype(bool)].tolist() for row in table.labels] == labels
    else:
        assert labels_of(table) == labels


def test_a_comparison_is_not_put_beside_a_model_or_an_index(tmp_path):
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"which holds a model or an index; name another folder$"):
        kept_folder(tmp_path, {}, "comparison")
    assert [one.name for one in tmp_path.iterdir()] == ["index.json"]
