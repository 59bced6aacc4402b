"""How many lists are probed: the least number with which rows find their neighbors, against brute force."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from lbhash.codes import hamming_distances, unpack
from lbhash.codes.io import CodeTable
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.index.lists import Lists
from lbhash.index.probes import FOUND, choose


def noisy(rng, count, width):
    """Codes around few centers, an eighth of the bits flipped."""
    centers = rng.integers(0, 256, (30, width), np.uint8)
    return centers[rng.integers(0, 30, count)] ^ np.bitwise_and.reduce(
        rng.integers(0, 256, (3, count, width), np.uint8)
    )


def slow_recall(codes, repeats, centers, lists, nprobe):
    """The mean share of the ten nearest other rows that lie in the ``nprobe`` lists with the nearest centers."""
    recalls = []
    for own in range(len(codes)):
        query = codes[own : own + 1]
        order = np.argsort(((unpack(query, 64) - centers) ** 2).sum(axis=1))[:nprobe]
        probed = np.isin(lists, order)
        distances = hamming_distances(query, codes)[0]
        others, met = [], []
        for other, distance in enumerate(distances):
            copies = repeats[other] - (other == own)
            others += [distance] * copies
            met += [distance] * (copies * int(probed[other]))
        farthest = sorted(others)[:10][-1]
        recalls += [min(10, sum(distance <= farthest for distance in met)) / 10] * repeats[own]
    return float(np.mean(recalls))


@pytest.mark.parametrize("most", [1, 4])  # how often a code repeats
@pytest.mark.parametrize("seed", range(3))
def test_the_least_number_that_finds_enough(seed, most):
    rng = np.random.default_rng(seed)
    codes = np.unique(noisy(rng, 200, 8), axis=0)
    codes = codes[: 256 // most]  # so that all rows are asked
    repeats = rng.integers(1, most + 1, len(codes))
    made = Lists.build(codes, 16)
    index = made._index
    centers = index.quantizer.reconstruct_n(0, 16)
    lists = np.empty(len(codes), int)
    for number in range(16):
        size = index.invlists.list_size(number)
        lists[faiss.rev_swig_ptr(index.invlists.get_ids(number), size)] = number
    chosen = choose(made, codes, repeats)
    assert (chosen.nlist, chosen.rows, index.nprobe) == (16, repeats.sum(), chosen.nprobe)
    wanted = [slow_recall(codes, repeats, centers, lists, nprobe) for nprobe in range(1, 17)]
    assert chosen.nprobe == 1 + next(at for at, recall in enumerate(wanted) if recall >= FOUND)
    assert 1 < chosen.nprobe < 16
    assert chosen.recall == pytest.approx(wanted[chosen.nprobe - 1])
    for nprobe in (1, 5, 99):  # a number that was given is taken
        forced = choose(made, codes, repeats, nprobe)
        assert forced.nprobe == index.nprobe == min(nprobe, 16)
        assert forced.recall == pytest.approx(wanted[forced.nprobe - 1])


def test_new_queries_find_as_much():
    rng = np.random.default_rng(0)
    codes = noisy(rng, 21_000, 8)
    index = Index(64, "ivf")
    index.add(codes[:20_000])
    (probes,) = index.info()["probes"]
    assert (probes["rows"], probes["nlist"]) == (256, round(20_000**0.5))
    assert FOUND <= probes["recall"] <= 1
    exact = np.sort(hamming_distances(codes[20_000:], codes[:20_000]), axis=1)[:, 9:10]
    assert (index.search(codes[20_000:], 10).distances <= exact).mean() > FOUND - 0.02


def test_the_number_is_kept_and_chosen_again_for_other_codes(tmp_path):
    rng = np.random.default_rng(0)
    close, far = noisy(rng, 1500, 8), rng.integers(0, 256, (3000, 8), np.uint8)
    index = build_index(CodeTable(close, 64, np.arange(1500)), tmp_path / "i", "ivf", metadata={})
    (first,) = index.info()["probes"]
    index = Index.open(tmp_path / "i", mode="a")
    assert index.info()["probes"] == [first]
    assert index.state.segments[0].structure.lists()._index.nprobe == first["nprobe"]
    index.add(far)
    assert index.info()["probes"][0] == first
    index.compact()
    (second,) = index.info()["probes"]
    assert second["nprobe"] > first["nprobe"]
    assert Index.open(tmp_path / "i", mode="a").info()["probes"] == [second]
    assert Index.open(tmp_path / "i", mode="a").state.segments[0].structure.lists()._index.nprobe == second["nprobe"]
    index.verify()


def test_what_people_see(tmp_path, monkeypatch, succeed, json_of):
    monkeypatch.chdir(tmp_path)
    np.savez("c.npz", codes=noisy(np.random.default_rng(0), 1500, 8), bits=64)
    out, _ = succeed("index", "build", "--codes", "c.npz", "--kind", "ivf", "--out", "i")
    (probes,) = json_of("info", "i")["probes"]
    line = "ivf: {nprobe} of 38 lists are probed; on 256 of its own rows that finds {recall:.1%} of the nearest ten"
    assert line.format(**probes) in out
    assert line.format(**probes) in succeed("info", "i")[0]
    forced = json_of("index", "build", "--codes", "c.npz", "--kind", "ivf", "--out", "j", "--option", "nprobe=1")
    assert forced["probes"][0]["nprobe"] == 1
    assert forced["probes"][0]["recall"] < probes["recall"]
    few = json_of("index", "build", "--codes", "c.npz", "--kind", "flat", "--out", "k")
    assert "probes" not in few
