from __future__ import annotations

import io
from threading import Thread

import pytest

from lbhash.utils.files import check_folder, exclusive, replacing, write_text


def test_a_file_is_whole_or_not_there(tmp_path):
    write_text(tmp_path / "deep" / "a.txt", "one")

    def half():
        with replacing(tmp_path / "deep" / "a.txt") as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one"
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["a.txt"]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path):
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "inside.txt"
    with pytest.raises(OSError, match="file") as raised:
        write_text(target, "x")
    assert raised.value.filename == str(target)
    assert raised.value.strerror


def test_a_file_in_the_place_of_a_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    check_folder(tmp_path, "out")
    check_folder(tmp_path / "deep" / "new", "out")
    with pytest.raises(ValueError, match=r"^runs is '.*file', which is a file; it must be a folder$"):
        check_folder(file, "runs")
    with pytest.raises(
        ValueError, match=r"^out is '.*/deep', and '.*file' is a file; it must be a folder, or end in \.npz$"
    ):
        check_folder(str(file / "very" / "deep"), "out", ", or end in .npz")


def test_a_lock_is_held_by_one(tmp_path):
    with exclusive(tmp_path, "lock", "it is busy", 0) as held:
        assert held.is_locked
        with pytest.raises(ValueError, match=r"^it is busy$"), exclusive(tmp_path, "lock", "it is busy", 0):
            raise AssertionError("two have it")
    with exclusive(tmp_path, "lock", "it is busy", 0.01):
        pass


def test_a_lock_is_waited_for(tmp_path, monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    order = []

    def wait():
        with exclusive(tmp_path, "lock", "wait", None):
            order.append("second")

    with exclusive(tmp_path, "lock", "wait", None):
        waiting = Thread(target=wait)
        waiting.start()
        while "wait\n" not in said.getvalue():
            assert waiting.is_alive()
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]
    assert said.getvalue() == "wait\n"
