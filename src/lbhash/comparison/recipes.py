"""The lines that build and search a way to store rows: commands of lbhash, or Python with another library."""

from __future__ import annotations

from lbhash.trials.stored import Way

_COMMANDS = """\
{way.take} --out model
lbhash index build DATA --model model --split all --out index
lbhash search index --model model --data QUERIES --row all
"""
_COMMANDS_AGAIN = """\
{way.take} --out model
lbhash index build DATA --model model --split all --vectors {way.vectors} --out index
lbhash search index --model model --data QUERIES --row all --rerank embeddings --candidates {way.rerank}
"""
_ROWS = """\
import numpy as np
rows, queries = (np.load(file).astype("float32") for file in ("rows.npy", "queries.npy"))  # yours
rows, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows, queries))
"""
_SECOND = {
    "embeddings": """\
np.save("kept.npy", rows.astype("float16"))
kept, step = np.load("kept.npy", mmap_mode="r"), 1
""",
    "int8": """\
step = np.abs(rows).max(axis=0) / 127
np.save("kept.npy", np.rint(rows / step).astype("int8"))
kept = np.load("kept.npy", mmap_mode="r")
""",
}
_COSINES = 'again = np.einsum("qcd,qd->qc", kept[found] * step, queries)\n'
_CLASSES = "again -= 4 * np.take_along_axis(apart, found, 1)\n"
_BEST = "found = np.take_along_axis(found, np.argsort(-again, axis=1)[:, :10], 1)\n"


def recipe(way: Way) -> str:
    """Return the lines that build and search a way: commands if they begin with ``lbhash``, otherwise Python.

    Commands read the files ``DATA`` and ``QUERIES``. Python reads ``rows.npy`` and ``queries.npy``, also ``labels.npy``
    if the way learns from labels, and leaves the positions of the nearest rows in ``found``.
    """
    if not way.recipe:
        return (_COMMANDS_AGAIN if way.rerank else _COMMANDS).format(way=way)
    lines = _ROWS + way.recipe.replace("{candidates}", str(way.rerank or 10))
    if way.rerank:
        lines += _SECOND[way.vectors] + _COSINES + (_CLASSES if way.labels else "") + _BEST
    return lines
