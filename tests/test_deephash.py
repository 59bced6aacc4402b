import numpy as np
import pytest

from lbhash.codes import pack
from lbhash.codes.deephash import read_deephash


def write_run(folder, prefix="", **changes):
    """What DeepHash-pytorch leaves beside its best model: float ±1 codes and one-hot float labels."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("tst", 7), ("trn", 30)):
        arrays[f"{part}_binary"] = rng.choice([-1.0, 1.0], (n, 12)).astype(np.float32)
        arrays[f"{part}_label"] = np.eye(4, dtype=np.float32)[rng.integers(0, 4, n)]
    arrays |= changes
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{prefix}{name}.npy", array)
    return arrays


@pytest.mark.parametrize("prefix", ["", "cifar10-0.83-"])
def test_a_run_is_read(tmp_path, prefix):
    arrays = write_run(tmp_path, prefix)
    for part, table in zip(("tst", "trn"), read_deephash(tmp_path), strict=True):
        assert (table.codes == pack(arrays[f"{part}_binary"])).all()
        assert table.bits == 12
        assert table.labels.tolist() == arrays[f"{part}_label"].argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trn_label": None}, "trn_label of deephash is .*trn_label.npy', and there is no such file"),
        ({"tst_binary": None}, "which has no file that ends in tst_binary.npy; it must have one"),
        ({"trn_label": np.eye(4)}, "deephash has 30 codes in trn_binary and 4 rows in trn_label"),
        ({"trn_binary": np.full((30, 12), 0.4)}, "trn_binary of deephash is 0.4 in row 0; it must be packed uint8"),
        ({"tst_label": np.full((7, 4), 2)}, "tst_label of deephash is 2 in row 0"),
    ],
)
def test_bad_runs(tmp_path, changes, message):
    write_run(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        read_deephash(tmp_path)


def test_bad_folders(tmp_path):
    with pytest.raises(ValueError, match=r"deephash is .*, and there is no such folder"):
        read_deephash(tmp_path / "x")
    write_run(tmp_path)
    write_run(tmp_path, "best-")
    with pytest.raises(ValueError, match=r"which has 2 files that end in tst_binary.npy"):
        read_deephash(tmp_path)
    (tmp_path / "best-tst_binary.npy").unlink()
    (tmp_path / "tst_binary.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"tst_binary of deephash is .*, which is damaged or no .npy file"):
        read_deephash(tmp_path)
