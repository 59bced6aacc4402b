"""Files that are not as they were written: refused with a line, or harmless; never a crash, never another answer."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbhash.codes.io import CodeTable
from lbhash.index import DamagedIndexError, Index
from lbhash.index.export import export_index
from lbhash.index.factory import build_index
from lbhash.index.files import BLOCK, Stored, StoredArray, write_array
from lbhash.index.manifest import checksum
from lbhash.index.store import MERGE


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder for each kind, and one of equal codes, with files of every sort, and what a search there finds."""
    made = {}
    rng = np.random.default_rng(0)
    for kind in ("flat", "ivf", "repeated"):
        folder = tmp_path_factory.mktemp(kind) / "i"
        codes = rng.integers(0, 256, (1500, 4), dtype=np.uint8)
        if kind == "repeated":  # equal codes are stored once
            codes = codes[rng.integers(0, 300, 1500)]
        table = CodeTable(codes, 32, rng.permutation(4000)[:1500], rng.integers(0, 3, 1500))
        vectors = rng.integers(0, 9, (1500, 2)).astype(np.uint8)
        called = "flat" if kind == "repeated" else kind
        index = build_index(table, folder, called, vectors=vectors, store="embeddings")
        index.remove(table.rows[:40])
        made[kind] = folder, answers(index, codes[:5])
    return made


def answers(index, queries):
    found = index.search(queries, 5)
    near = index.search(queries, 5, where={"label": 1})
    columns = [column.to_numpy() for column in index.metadata_of(near.ids[0]).columns]
    return [*found, *near, index.vectors_of(near.ids[0]), *columns]


def assert_refused_or_right(folder, queries, expected):
    """One line of ``ValueError`` at opening or use; or every answer is as it was."""
    try:
        found = answers(Index.open(folder, mode="a"), queries)
    except ValueError as refused:
        said = str(refused)
    else:
        said = ""
    if said:
        assert len(said.splitlines()) == 1
        assert said.startswith(("index is damaged", "path is "))
        return
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(["flat", "ivf", "repeated"]))
def test_any_damage_to_any_file(whole, tmp_path, kind, data):
    source, expected = whole[kind]
    queries = Index.open(source, mode="a").codes_of(Index.open(source, mode="a").ids()[:5])
    expected = answers(Index.open(source, mode="a"), queries)
    name = data.draw(st.sampled_from(sorted(file.name for file in source.iterdir() if file.name != "index.lock")))
    shutil.rmtree(tmp_path / "i", ignore_errors=True)
    shutil.copytree(source, tmp_path / "i")
    content = bytearray((tmp_path / "i" / name).read_bytes())
    before = bytes(content)
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
    if how == "gone" or (content != before and name != "index.json"):
        with pytest.raises(ValueError, match=r"(index|path) is .*(damaged|which has no index.json)"):
            Index.open(tmp_path / "i", mode="a").verify()


def rewrite(folder, **changes):
    """Another manifest, with a checksum that is right."""
    manifest = {**json.loads((folder / "index.json").read_text()), **changes}
    manifest.pop("checksum", None)
    (folder / "index.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 5}, "of format 5; this lbhash reads format 7 alone: build the index again"),
        (
            {"version": 8},
            "of format 8; this lbhash reads format 7 alone: upgrade lbhash (pip install --upgrade lbhash)",
        ),
        ({"format": "photographs"}, "whose index.json is damaged or not that of an index"),
        ({"bits": 64}, "index is damaged: 00000001.0.codes.npy does not hold uint8 [1500, 8]"),
    ],
)
def test_manifests_of_other_programs(whole, tmp_path, changes, said):
    shutil.copytree(whole["flat"][0], tmp_path / "i")
    rewrite(tmp_path / "i", **changes)
    with pytest.raises(ValueError, match=r"(index|path) is") as caught:
        Index.open(tmp_path / "i", mode="a")
    assert said in str(caught.value)


def forged(name, value):
    """A change of the first segment's entry of a file, or of the segment itself."""

    def change(manifest):
        (manifest["segments"][0] if name in ("rows", "first") else manifest["segments"][0]["codes"])[name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("segments"),
        lambda manifest: manifest.update(generation="3"),
        lambda manifest: manifest.update(kept=[]) or manifest.update(options=None),
        lambda manifest: manifest["kept"].update(dtype="object"),
        lambda manifest: manifest["segments"][0].pop("codes"),
        lambda manifest: manifest["segments"][0].pop("vectors"),
        lambda manifest: manifest["segments"].append(None),
        *(forged("xxh3", value) for value in ("", "0" * 15, "0" * 32, None)),
        *(forged("file", value) for value in ("../index.json", 3)),
        *(forged("bytes", value) for value in (None, -1, 1.5)),
        *(forged("rows", value) for value in (None, "1500")),
        forged("first", "x"),
    ],
)
def test_manifests_whose_values_do_not_fit_are_refused(whole, tmp_path, change):
    """Their checksum is right; too few checksums of blocks would give back memory that was never written."""
    shutil.copytree(whole["flat"][0], tmp_path / "i")
    manifest = json.loads((tmp_path / "i" / "index.json").read_text())
    change(manifest)
    manifest.pop("checksum")
    (tmp_path / "i" / "index.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
    with pytest.raises(ValueError, match=r"^path is '.*', whose index\.json is damaged or not that of an index; build"):
        Index.open(tmp_path / "i")


def test_files_that_take_the_place_of_others(whole, tmp_path):
    for kind, name, other, said in (
        ("flat", "metadata", "codes", "Arrow cannot read 00000001.0.codes.npy"),
        ("ivf", "structure", "metadata", "FAISS cannot read 00000001.0.metadata.arrow"),
        ("flat", "removed", "ids", "does not hold"),
    ):
        folder = tmp_path / name
        shutil.copytree(whole[kind][0], folder)
        (segment,) = json.loads((folder / "index.json").read_text())["segments"]
        segment[name] = {"rows": 1500, **segment[other]}
        rewrite(folder, segments=[segment])
        with pytest.raises(DamagedIndexError, match=said):
            Index.open(folder).verify()


def test_a_link_is_not_written_through(tmp_path):
    """Whoever can make one in the folder would choose a file of the user that is overwritten."""
    build_index(CodeTable(np.eye(3, dtype=np.uint8), 24, np.arange(3)), tmp_path / "i")
    mine = tmp_path / "mine"
    mine.write_text("kept")
    index = Index.open(tmp_path / "i", "a")
    for name in ("index.json.new", f"{index.generation + 1:08d}.0.removed.npy"):
        (tmp_path / "i" / name).symlink_to(mine)
    index.remove([1])
    assert mine.read_text() == "kept"
    (tmp_path / "i" / "index.json").rename(tmp_path / "elsewhere")
    (tmp_path / "i" / "index.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match="because a symbolic link is in its place"):
        index.remove([2])


@pytest.mark.parametrize(("name", "value"), [("model", "another"), ("next_id", 7)])
def test_a_manifest_that_was_changed_by_hand(whole, tmp_path, refuse, name, value):
    shutil.copytree(whole["flat"][0], tmp_path / "i")
    file = tmp_path / "i" / "index.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    said = "whose index.json is damaged or not that of an index"
    with pytest.raises(ValueError, match=said):
        Index.open(tmp_path / "i", mode="a")
    assert said in refuse("index", "verify", tmp_path / "i")


def test_places_that_hold_no_index(tmp_path, refuse):
    with pytest.raises(
        ValueError, match=r"^path is '.*', which has no index\.json; it must be a folder that holds an index"
    ):
        Index.open(tmp_path, mode="a")
    with pytest.raises(ValueError, match=r"^path is '.*', and there is no such folder"):
        Index.open(tmp_path / "no", mode="a")
    assert "error: index is" in refuse("index", "export", tmp_path / "no", "--out", tmp_path / "codes.parquet")
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match=r"^path is '.*', which is a file; it must be a folder"):
        Index.open(tmp_path / "file", mode="a")
    for content in (b"", b"{}", b"[" * 100_000, bytes(range(256))):
        (tmp_path / "index.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"whose index\.json is damaged or not that of an index"):
            Index.open(tmp_path, mode="a")


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
        "00000003.0.metadata.arrow",
        "00000003.0.codes.npy",
    }
    assert index.generation == 3
    (tmp_path / "i" / "my-notes.txt").write_text("kept")
    index.remove([0, 1])
    assert (tmp_path / "i" / "my-notes.txt").read_text() == "kept"


def flipped(source, folder, name):
    """A copy of an index with one bit of a file flipped, and the names and sizes of its files."""
    shutil.copytree(source, folder)
    (file,) = folder.glob(f"*.{name}.*")
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)
    return file


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "index.lock"}


def rewrite_all(index, folder):
    index.compact()


def remove_many(index, folder):
    index.remove(index.ids()[:600])


def add_until_merged(index, folder):
    """Adds small segments, which are no rewriting, and then the one by which all are merged."""
    before = None
    for first in range(5000, 5000 + 20 * MERGE, 20):
        before = contents(folder)
        index.add(
            np.zeros((20, 4), np.uint8),
            range(first, first + 20),
            {"row": [0] * 20, "label": [0] * 20},
            vectors=np.zeros((20, 2), np.uint8),
        )
    raise AssertionError(f"nothing was merged in {sorted(before)}")


def copy_all(index, folder):
    index.save(folder.parent / "copy")


def export(index, folder):
    export_index(index, folder.parent / "codes.parquet")


@pytest.mark.parametrize("change", [rewrite_all, remove_many, add_until_merged, copy_all, export])
@pytest.mark.parametrize(
    ("source", "name"),
    [("flat", "metadata"), ("flat", "vectors"), ("flat", "removed"), ("repeated", "positions")],
)
def test_damage_is_never_written_again(whole, tmp_path, change, source, name):
    """What rewrites or exports reads only what is as it was written, and says what ``verify`` says."""
    if change is export and name == "vectors":
        pytest.skip("an export has no vectors")
    file = flipped(whole[source][0], tmp_path / "i", name)
    with pytest.raises(DamagedIndexError) as told:
        Index.open(tmp_path / "i", mode="a").verify()
    left = file.read_bytes()
    with pytest.raises(DamagedIndexError) as refused:
        change(Index.open(tmp_path / "i", mode="a"), tmp_path / "i")
    assert str(refused.value) == str(told.value) == f"index is damaged: the checksum of {file.name} is wrong"
    assert file.read_bytes() == left
    assert not (tmp_path / "copy" / "index.json").exists()
    assert not (tmp_path / "codes.parquet").exists()
    with pytest.raises(DamagedIndexError):
        Index.open(tmp_path / "i", mode="a").verify()


@pytest.mark.parametrize("to", [0, 2])
def test_a_file_that_is_cut_in_place_ends_no_process(whole, tmp_path, to):
    source, _ = whole["ivf"]
    shutil.copytree(source, tmp_path / "i")
    index = Index.open(tmp_path / "i", mode="a")
    queries = Index.open(source, mode="a").codes_of(Index.open(source, mode="a").ids()[:5])
    for file in (tmp_path / "i").glob("0*"):
        os.truncate(file, to and file.stat().st_size // to)
    with pytest.raises(DamagedIndexError, match=r"^index is damaged: 00000001\.0\.\S+ has been cut to \d+ bytes$"):
        answers(index, queries)


def test_folders_in_the_place_of_files(whole, tmp_path):
    for source, _ in whole.values():
        for file in source.glob("0*"):
            folder = shutil.copytree(source, tmp_path / source.parent.name / file.name)
            (folder / file.name).unlink()
            (folder / file.name).mkdir()
            with pytest.raises(DamagedIndexError, match=f"^index is damaged: {file.name} is not a file$"):
                Index.open(folder, mode="a")


def test_blocks_are_checked_when_they_are_read(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).integers(0, 256, (3 * BLOCK // 1024 + 5, 1024), dtype=np.uint8)
    entry = write_array(tmp_path / "00000001.0.vectors.npy", rows)
    assert len(entry["xxh3"]) == 16 * 4
    file = tmp_path / entry["file"]
    content = bytearray(file.read_bytes())
    content[2 * BLOCK + 7] ^= 1
    file.write_bytes(content)
    positions, wrong = np.array([3, 1000, 5]), r"^index is damaged: the checksum of 00000001\.0\.vectors\.npy is wrong$"
    with pytest.raises(DamagedIndexError, match=wrong):  # all blocks, of what is kept in memory
        StoredArray(Stored(tmp_path, entry), np.uint8, rows.shape).rows(positions)
    monkeypatch.setattr("lbhash.index.files.HELD", 0)
    array = StoredArray(Stored(tmp_path, entry), np.uint8, rows.shape)
    np.testing.assert_array_equal(array.rows(positions), rows[positions])  # of blocks that are as they were
    for touched in ([2048], [3, 2047]):
        with pytest.raises(DamagedIndexError, match=wrong):
            array.rows(np.array(touched))


def test_a_change_is_refused_or_stored_however_few_files_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    index, codes = Index(16), np.arange(8, dtype=np.uint8).reshape(4, 2)
    index.add(codes, metadata={"word": ["a", "b", "c", "d"]})
    index.save(tmp_path / "i")
    before, outcomes = resource.getrlimit(resource.RLIMIT_NOFILE), []
    for more in range(14):
        index = Index.open(tmp_path / "i", mode="a")
        generation, count = index.generation, len(index)
        free = os.open(tmp_path, os.O_RDONLY)
        os.close(free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, before[1]))
            index.add(codes[:1], metadata={"word": ["e"]})
            stored = True
        except OSError:
            stored = False
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        again = Index.open(tmp_path / "i")
        assert (again.generation, len(again)) == (generation + stored, count + stored), more
        assert (index.generation, len(index)) == (again.generation, len(again)), more
        again.verify()
        outcomes.append(stored)
    assert set(outcomes) == {False, True}
