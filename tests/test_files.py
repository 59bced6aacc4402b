from __future__ import annotations

import pytest

from lbhash.files import replacing, write_text


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
