"""The linear codes found by search: rank, minimum distance, and the search itself."""

import numpy as np
import pytest
from benchmarks.code_search import linear_codes

from lbhash.centers.constructions.known_linear import KnownCode, known_codes
from lbhash.centers.constructions.linear import Generator, span
from lbhash.codes import hamming_distances


def least_weight(matrix: Generator) -> int:
    """The least weight of all words but the first; 0 where the rows are dependent."""
    words = span(matrix)
    return int(hamming_distances(words[1:], words[:1]).min())


@pytest.mark.parametrize("code", known_codes(), ids=lambda code: f"{code.n}-{code.k}-{code.d}")
def test_every_distance_is_counted(code: KnownCode) -> None:
    matrix = code.generator()
    assert matrix.shape == (code.k, code.n)
    assert matrix.dtype == np.uint8
    assert least_weight(matrix) == code.d


def test_each_pair_once() -> None:
    assert len({(code.n, code.k) for code in known_codes()}) == len(known_codes()) == 13


def test_the_options_of_every_code_are_stored() -> None:
    assert all("--order" in code.options and "--seed" in code.options for code in known_codes())


@pytest.mark.parametrize(("n", "k", "d", "order", "frobenius"), [(24, 7, 10, 7, False), (48, 15, 16, 15, True)])
def test_search_finds_a_code_of_the_table(n: int, k: int, d: int, order: int, frobenius: bool) -> None:
    found = linear_codes.search(n, k, d, order, frobenius, seconds=60)
    assert found is not None
    assert found.shape == (k, n)
    assert least_weight(found) >= d
    (stored,) = (code for code in known_codes() if (code.n, code.k) == (n, k))
    assert linear_codes.hexadecimal_rows(found) == linear_codes.hexadecimal_rows(stored.generator())


def test_search_by_checks() -> None:
    found = linear_codes.search_checks(16, 7, 15, seconds=60)  # the extended BCH code is one
    assert found is not None
    assert found.shape == (7, 16)
    assert least_weight(found) >= 6


def test_search_gives_up() -> None:
    assert linear_codes.search(7, 4, 4, 7, seconds=0.5) is None  # [7, 4, 3] is the best


@pytest.mark.parametrize("arguments", ["--distance 6 --order 6 --frobenius", "--distance 5 --order 7 --checks"])
def test_arguments_are_checked(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["linear_codes", "--length", "24", "--dimension", "7", *arguments.split()])
    with pytest.raises(SystemExit) as stopped:
        linear_codes.main()
    assert stopped.value.code == 2


def test_command_prints_the_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--length", "7", "--dimension", "3", "--distance", "4", "--order", "7"]
    monkeypatch.setattr("sys.argv", ["linear_codes", *arguments])
    linear_codes.main()
    assert len(capsys.readouterr().out.split()) == 3
