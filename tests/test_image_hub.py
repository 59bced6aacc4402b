from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from lbhash.data.images import HUB_DATASETS, holds_images, is_hub_dataset, load_images
from lbhash.data.images.hub import HubDataset

datasets = pytest.importorskip("datasets")

NAMES = ["airplane", "automobile", "bird"]
SIZES = {"train": 30, "test": 12}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def pixels():
    rng = np.random.default_rng(0)
    return {part: rng.integers(0, 256, (size, 32, 32, 3), dtype=np.uint8) for part, size in SIZES.items()}


def repository(folder, pixels, label):
    """A data set as the Hub holds CIFAR, in a folder."""
    kinds = {"img": datasets.Image(), label: datasets.ClassLabel(names=NAMES)}
    if label == "fine_label":
        kinds["coarse_label"] = datasets.ClassLabel(names=["all"])
    for part, images in pixels.items():
        columns = {"img": [Image.fromarray(image) for image in images], label: [row % 3 for row in range(len(images))]}
        if label == "fine_label":
            columns["coarse_label"] = [0] * len(images)
        made = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
        made.to_parquet(folder / "data" / f"{part}-00000-of-00001.parquet")
    return str(folder)


@pytest.fixture
def downloads(cache, pixels, tmp_path, monkeypatch):
    """The Hub stands in a folder; the ids that were asked for."""
    asked = []
    load = datasets.load_dataset
    places = {
        known.repository: repository(tmp_path / name, pixels, "fine_label" if name == "cifar100" else "label")
        for name, known in HUB_DATASETS.items()
    }
    for name in HUB_DATASETS:
        (tmp_path / name).rename(tmp_path / f"{name} of the Hub")

    def from_folder(repository, **options):
        asked.append(repository)
        return load(f"{places[repository]} of the Hub", **options)

    monkeypatch.setattr(datasets, "load_dataset", from_folder)
    return asked


@pytest.mark.parametrize(("name", "protocol"), [("cifar10", "cifar10"), ("cifar100", "official")])
def test_a_data_set_is_downloaded_once(downloads, cache, pixels, name, protocol):
    table = load_images(name)
    assert (table.name, table.protocol, table.class_names) == (name, protocol, tuple(NAMES))
    assert (len(table), table.test_rows.sum()) == (42, 12)
    for part, of_table in (("train", ~table.test_rows), ("test", table.test_rows)):
        rows = np.flatnonzero(of_table)
        np.testing.assert_array_equal([np.asarray(table.store.read(row)) for row in rows], pixels[part])
        assert table.labels[rows].tolist() == [row % 3 for row in range(SIZES[part])]
    assert downloads == [HUB_DATASETS[name].repository]
    known = table.store.fingerprint()
    assert sorted(path.name for path in (cache / "datasets" / name).iterdir()) == ["test.parquet", "train.parquet"]
    assert load_images(name).store.fingerprint() == known
    assert len(downloads) == 1
    (cache / "datasets" / name / "test.parquet").unlink()  # as if the download had broken off
    assert len(load_images(name)) == 42
    assert len(downloads) == 2


def test_a_folder_of_that_name_goes_first(downloads, tmp_path):
    assert is_hub_dataset("cifar10")
    (tmp_path / "cifar10" / "cat").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "cifar10" / "cat" / "1.png")
    assert not is_hub_dataset("cifar10")
    assert len(load_images("cifar10")) == 1
    assert downloads == []


def test_without_a_network(cache, monkeypatch):
    said = (
        r"^data is 'cifar10', which could not be downloaded from the Hub \(uoft-cs/cifar10\): .*; without a network "
        r"give a copy of its folder$"
    )
    with pytest.raises(ValueError, match=said) as caught:  # as conftest.py says it
        load_images("cifar10")
    assert "\n" not in str(caught.value)
    assert list((cache / "datasets" / "cifar10").iterdir()) == []
    monkeypatch.setitem(HUB_DATASETS, "cifar10", HubDataset(str(cache / "absent"), "cifar10"))
    with pytest.raises(ValueError, match=r"absent\): .*; without a network"):
        load_images("cifar10")


def test_without_the_package(cache, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^data is 'cifar100', which needs the package datasets: pip install 'lb"):
        load_images("cifar100")
    assert not cache.exists()


def test_they_hold_images(cache, command):
    assert holds_images("cifar10")
    assert not holds_images("digits")
    status, out, errors = command("train", "cifar10", "--out", "model")
    assert (status, out) == (2, "")
    assert "data is 'cifar10', which holds images; give what embeds them (--backbone FOLDER)" in errors
    said = r"^data is 'cifar', and there is no such file or folder; it must be one, or .*; did you mean cifar10\?$"
    with pytest.raises(ValueError, match=said):
        load_images("cifar")
