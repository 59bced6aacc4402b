"""Files that are not as they were written: refused with a line, or harmless; never a crash, never another answer."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbhash.codes.io import CodeTable
from lbhash.index import build_index, open_index
from lbhash.index.manifest import checksum


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder for each of three kinds, with a file of every sort in it, and what a search there finds."""
    made = {}
    rng = np.random.default_rng(0)
    for kind in ("flat", "mih", "ivf", "hnsw"):
        folder = tmp_path_factory.mktemp(kind) / "i"
        codes = rng.integers(0, 256, (1500, 4), dtype=np.uint8)
        table = CodeTable(codes, 32, rng.permutation(4000)[:1500], rng.integers(0, 3, 1500))
        vectors = rng.integers(0, 9, (1500, 2)).astype(np.uint8)
        index = build_index(table, folder, kind, vectors=vectors, store_vectors="embeddings")
        index.remove(table.rows[:40])
        made[kind] = folder, answers(index, codes[:5])
    return made


def answers(index, queries):
    found = index.search(queries, 5)
    near = index.search(queries, 5, where={"label": 1})
    return [*found, *near, index.vectors_of(near.ids[0]), index.attributes_of(near.ids[0])["label"].to_numpy()]


def assert_refused_or_right(folder, queries, expected):
    """One line of ``ValueError`` at opening, use or verification; or everything is as it was."""
    try:
        index = open_index(folder)
        found = answers(index, queries)
        index.verify()
    except ValueError as refused:
        said = str(refused)
    else:
        said = ""
    if said:
        assert len(said.splitlines()) == 1
        assert said.startswith("index is ")
        return
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("kind", ["flat", "mih", "ivf", "hnsw"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_any_file(whole, tmp_path, kind, data):
    source, expected = whole[kind]
    queries = open_index(source).codes_of(open_index(source).ids()[:5])
    expected = answers(open_index(source), queries)
    name = data.draw(st.sampled_from(sorted(file.name for file in source.iterdir() if file.name != "index.lock")))
    shutil.rmtree(tmp_path / "i", ignore_errors=True)
    shutil.copytree(source, tmp_path / "i")
    content = bytearray((tmp_path / "i" / name).read_bytes())
    how = data.draw(st.sampled_from(["cut", "flip", "grow", "gone", "swap"]))
    if how == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    elif how == "flip":
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    elif how == "grow":
        content += data.draw(st.binary(min_size=1, max_size=9))
    elif how == "swap":
        content[:] = (
            data.draw(st.binary(min_size=len(content), max_size=len(content))) if len(content) < 99 else content[::-1]
        )
    if how == "gone":
        (tmp_path / "i" / name).unlink()
    else:
        (tmp_path / "i" / name).write_bytes(content)
    assert_refused_or_right(tmp_path / "i", queries, expected)


def test_a_flipped_bit_in_each_file_is_found(whole, tmp_path):
    for kind, (source, _) in whole.items():
        for file in sorted(source.iterdir()):
            if file.name == "index.lock":
                continue
            shutil.rmtree(tmp_path / "i", ignore_errors=True)
            shutil.copytree(source, tmp_path / "i")
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 16
            (tmp_path / "i" / file.name).write_bytes(content)
            with pytest.raises(ValueError, match="index is") as caught:
                open_index(tmp_path / "i").verify()
            assert kind
            assert "damaged" in str(caught.value)


def test_an_id_that_is_lost_among_damaged_ones_is_not_called_unknown(whole, tmp_path):
    source, _ = whole["flat"]
    shutil.copytree(source, tmp_path / "i")
    file = tmp_path / "i" / "00000001.0.ids.npy"
    ids = np.load(file)
    ids[[100, 1400]] = ids[[1400, 100]]
    np.save(file, ids)
    with pytest.raises(ValueError, match=r"^index is damaged: the ids of a segment do not increase$"):
        open_index(tmp_path / "i").codes_of(ids[[100]])


def test_what_faiss_reads_is_checked_before_the_first_search(whole, tmp_path):
    source, _ = whole["hnsw"]
    shutil.copytree(source, tmp_path / "i")
    (file,) = (tmp_path / "i").glob("*.faiss")
    content = bytearray(file.read_bytes())
    content[100:200] = bytes(100)
    file.write_bytes(content)
    index = open_index(tmp_path / "i")
    with pytest.raises(ValueError, match=r"index is damaged: the checksum of 00000001\.0\.structure\.faiss is wrong"):
        index.search(index.codes_of(index.ids()[:1]), 3)


def rewrite(folder, **changes):
    """Another manifest, with a checksum that is right."""
    manifest = json.loads((folder / "index.json").read_text()) | changes
    manifest.pop("checksum")
    (folder / "index.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "which a newer lbhash wrote (format 2; this one reads 1)"),
        ({"format": "photographs"}, "whose index.json is damaged or not of an index"),
        ({"kind": "tree"}, "of the kind 'tree', which is unknown"),
        ({"bits": 64}, "index is damaged: 00000001.0.codes.npy does not hold uint8 [1500, 8]"),
    ],
)
def test_manifests_of_other_programs(whole, tmp_path, changes, said):
    shutil.copytree(whole["flat"][0], tmp_path / "i")
    rewrite(tmp_path / "i", **changes)
    with pytest.raises(ValueError, match="index is") as caught:
        open_index(tmp_path / "i")
    assert said in str(caught.value)


def test_places_that_hold_no_index(tmp_path):
    with pytest.raises(ValueError, match=r"index is '.*', which holds no index: it has no index\.json"):
        open_index(tmp_path)
    with pytest.raises(ValueError, match=r"index is '.*', and there is no such folder"):
        open_index(tmp_path / "no")
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match=r"index is '.*', which is a file; it must be a folder"):
        open_index(tmp_path / "file")
    for content in ("", "[]", "{}", "null", "3", '{"checksum": 1}', "[" * 100_000, '{"format": "lbhash index"}'):
        (tmp_path / "index.json").write_text(content)
        with pytest.raises(ValueError, match=r"whose index\.json is damaged or not of an index"):
            open_index(tmp_path)
    (tmp_path / "index.json").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match=r"whose index\.json is damaged"):
        open_index(tmp_path)


def test_a_damaged_index_can_be_replaced(whole, tmp_path):
    shutil.copytree(whole["flat"][0], tmp_path / "i")
    (tmp_path / "i" / "index.json").write_text("{")
    table = CodeTable(np.zeros((3, 4), np.uint8), 32, np.arange(3))
    with pytest.raises(ValueError, match="already holds an index"):
        build_index(table, tmp_path / "i")
    index = build_index(table, tmp_path / "i", overwrite=True)
    index.verify()
    # Names that a reader of the damaged one may have open are not used again.
    assert {file.name for file in (tmp_path / "i").glob("0*")} == {
        "00000003.0.attributes.arrow",
        "00000003.0.codes.npy",
    }
    assert index.generation == 3
    (tmp_path / "i" / "my-notes.txt").write_text("kept")
    index.remove([0, 1])
    assert (tmp_path / "i" / "my-notes.txt").read_text() == "kept"
