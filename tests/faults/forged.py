"""Manifests and model folders that somebody wrote: values of any kind, and checksums that are right."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import Material

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    2,
    3,
    127,
    2**31,
    2**63,
    10**30,
    0.5,
    1e300,
    "",
    "x",
    "../index.json",
    [],
    [1],
    {},
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return the containers and keys of all values within a value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *places(value[key]))]


def forge(rng: random.Random, value: Any) -> str:
    """Change one value, take it away or exchange it with another, and return in words what was done."""
    found = places(value)
    (one, key), (other, there) = rng.choice(found), rng.choice(found)
    how = rng.choice(["put", "put", "take", "exchange", "cut", "step"])
    before = one[key]
    if how == "take":
        del one[key]
    elif how == "exchange" and str(before) not in str(other[there]) and str(other[there]) not in str(before):
        one[key], other[there] = other[there], before
    elif how == "cut" and isinstance(before, (str, list)):
        one[key] = before[: rng.randrange(len(before) + 1)]
    elif how == "step" and type(before) is int:
        one[key] = before + rng.choice([-1, 1, 8, -before, 1 << 20])
    else:
        how, one[key] = "put", rng.choice(VALUES)
    return f"{how} at {key!r}, which was {str(before)[:60]}: {str(one.get(key) if isinstance(one, dict) else one)[:60]}"


def use_index(folder: str) -> list[str]:
    """Do with an index what can be done, and return all its codes."""
    from lbhash.index import Index

    index = Index.open(folder, mode="a")
    ids = index.ids()
    codes = index.codes_of(ids)
    asked = np.ones((2, index.bits), np.float32)
    for where in (None, {"label": 1}, "row < 300 or label is null"):
        index.search(codes[:2], 5, where=where)
        index.search(outputs=asked, k=5, where=where)
        index.range_search(codes[:2], 2, where=where)
    index.get(ids[:5])
    if index.vectors:
        index.vectors_of(ids[:5])
    json.dumps(index.info())
    repr(index)
    index.verify()
    index.remove(ids[:900])
    index.compact()
    return [code.tobytes().hex() for code in codes]


def use_model(folder: str) -> list[list[float]]:
    """Load a model, and return its outputs for some rows."""
    from lbhash import Hasher

    hasher = Hasher.from_pretrained(folder)
    return hasher.outputs(np.random.default_rng(3).normal(size=(40, hasher.model_.dim)).astype(np.float32)).tolist()


@attack("forged-indexes", "values of an index's manifest changed, with checksums that are right")
def indexes(run: Run) -> None:
    from lbhash.index.manifest import checksum

    material, work = Material(run), run.folder / "work"
    whole = {kind: material.index(kind) for kind in ("flat", "ivf")}
    known = {
        kind: {code for file in folder.glob("*.codes.npy") for code in _codes(file)} for kind, folder in whole.items()
    }
    for rng in run.faults():
        kind = rng.choice(list(whole))
        shutil.copytree(whole[kind], work)
        manifest = json.loads((work / "index.json").read_text())
        what = f"{kind}: {forge(rng, manifest)}"
        manifest.pop("checksum", None)
        (work / "index.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
        done = material.program.call(use_index, str(work))
        if done.crash:
            run.count("crashed", f"{what}: {done.crash}")
        elif done.refused:
            run.count("refused")
        else:  # what was never written must not come back
            run.count("survived" if set(json.loads(done.out)) <= known[kind] else "wrong", what)
        shutil.rmtree(work)


def _codes(file: Path) -> list[str]:
    """Return the codes of a file."""
    return [code.tobytes().hex() for code in np.load(file)]


@attack("forged-models", "layouts and weights of a model changed, with fingerprints and checksums that are right")
def models(run: Run) -> None:
    from safetensors.numpy import load_file, save_file

    from lbhash.utils.checksums import with_checksum
    from lbhash.utils.fingerprint import fingerprint

    material, work = Material(run), run.folder / "work"
    weights = load_file(material.model / "model.safetensors")
    for rng in run.faults():
        shutil.copytree(material.model, work)
        config = json.loads((work / "config.json").read_text())
        config.pop("checksum", None)
        held, changed = dict(weights), rng.random() < 0.5
        if changed:
            name = rng.choice(sorted(held))
            array = held[name]
            how = rng.choice(["first", "less", "gone", "turned", "double", "renamed"])
            if how == "gone":
                del held[name]
            elif how == "renamed":
                held[f"{name}2"] = held.pop(name)
            else:
                held[name] = np.ascontiguousarray(
                    {"first": array[:1], "less": array[:-1], "turned": array.T, "double": array.astype(np.float64)}[how]
                )
            same = held.get(name) is not None and held[name].shape == array.shape and held[name].dtype == array.dtype
            what = f"{name} {how}"
            save_file(held, work / "model.safetensors")
            config["metadata"]["fingerprint"] = fingerprint(*(p for one in sorted(held.items()) for p in one))
        else:
            what, same = forge(rng, config), True
        (work / "config.json").write_text(json.dumps(with_checksum(config)))
        done = material.program.call(use_model, str(work))
        if done.crash:
            run.count("crashed", f"{what}: {done.crash}")
        elif done.refused:
            run.count("refused")
        else:
            run.count("survived" if same else "wrong", what)
        shutil.rmtree(work)
