"""What the recipes of the guidance do to a model's outputs. Writes a part and a picture of ``docs/guidance.md``.

    python -m lbhash.experiments.margins --data cifar10=FILE

Hosts are trained plain and with each recipe, on rows cut from the training split, and the rows that are their base
are looked at, those of all seeds together. The margin of a bit is c·ℓ, the output towards the class's centre c: below
0 the bit is wrong. A plain host has its own centres, the majority of its codes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.drawing import new_grid, palette
from lbhash.experiments.page import check_part, markdown_table, replace_part
from lbhash.files import replacing
from lbhash.reproduce.distributions import marginals
from lbhash.reproduce.guidance import CENTERS
from lbhash.reproduce.paper import METHOD_TITLES
from lbhash.reproduce.settings import Settings
from lbhash.reproduce.sources import DIGITS, Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lbhash.objectives.guided import Guided

PART = "margins"
RECIPES: dict[str, str | None] = {"plain": None, "paper": "paper", "distilled": "distilled"}
PULLS_AT = (-1.0, 0.0, 1.0, 2.0)
COLUMNS = (
    "method",
    "recipe",
    "mAP",
    "wrong bits",
    "all bits right",
    "all another class's",
    "half width of P",
    *(f"pull at {at:g}" for at in PULLS_AT),
)

_EDGES = np.linspace(-4, 4, 65)
_MIDDLES = (_EDGES[1:] + _EDGES[:-1]) / 2
_FEW = 20  # outputs in a bin, below which its mean is noise

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Looked:
    """What there is to see of a trained model, of n rows.

    Attributes:
        mean_ap: mAP of the queries on these rows.
        margins: c·ℓ, ``[n, bits]``.
        at: the class whose very centre the code is, −1 where it is none's, ``[n]``.
        labels: ``[n]``.
        certainty: the surrogate's probability that a bit is the centre's, ``[n, bits]``; NaN without guidance.
        pull: ∂ log P(c | ℓ)/∂(c·ℓ), above 0 where the bit is pushed further towards the centre, ``[n, bits]``.
    """

    mean_ap: float
    margins: Floats
    at: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    certainty: Floats
    pull: Floats

    def by_margin(self, values: Floats) -> Floats:
        """Means of values of the bits by their margin, at ``_MIDDLES``; NaN where there are few."""
        bins = np.digitize(self.margins, _EDGES).ravel()  # 0 and the last are beyond the edges
        counts = np.bincount(bins, minlength=len(_EDGES) + 1)[1:-1]
        sums = np.bincount(bins, values.ravel(), minlength=len(_EDGES) + 1)[1:-1]
        return np.where(counts < _FEW, np.nan, sums / np.maximum(counts, 1))


def main() -> None:
    """Train, look, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Source.of, default=DIGITS, help="NAME=FILE or digits, of one label a row")
    parser.add_argument("--methods", nargs="+", choices=METHOD_TITLES, default=["csq", "dsdh", "hashnet"])
    parser.add_argument("--bits", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/guidance.md"))
    given = parser.parse_args()
    source = replace(given.data, validation=True)
    try:
        check_part(given.out, PART)
        of = Settings(given.seeds, epochs=given.epochs, bits=(given.bits,))
        if source.dataset().multi_label:
            raise ValueError(f"data is {source.name!r}, whose rows have several labels; a margin is towards one centre")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    found = {
        method: {
            name: together([look(source, method, recipe, given.bits, given.epochs, at) for at in of.all_seeds()])
            for name, recipe in RECIPES.items()
        }
        for method in given.methods
    }
    table = markdown_table(COLUMNS, rows(found), left=1)
    print(table)
    with replacing(given.out.with_name("guidance-margins.png")) as temporary:
        draw(found).savefig(temporary, format="png", dpi=110)
    replace_part(given.out, PART, table)


def look(source: Source, method: str, recipe: str | None, bits: int, epochs: int, seed: int) -> Looked:
    """Train with a recipe, or plain, and look at the base."""
    from lightning.pytorch.callbacks import LambdaCallback

    from lbhash.evaluation import evaluate
    from lbhash.hasher import Hasher
    from lbhash.lower_bound import code_centers

    data = source.dataset(seed)
    part, classes = source.training(seed)
    guidance = None if recipe is None else {"recipe": recipe}
    hasher = Hasher(bits, method, recipe is not None, epochs, seed, centers=CENTERS, guidance=guidance, device="cpu")
    kept: list[Guided] = []
    keep = LambdaCallback(on_train_end=lambda trainer, module: kept.append(module.objective))
    hasher.fit_part(part, len(classes), callbacks=[keep])
    query, base = (hasher.encode_part(split) for split in (data.query, data.base))
    mean_ap = evaluate(query, data.query.labels, base, data.base.labels, source.at(), bits=bits).map
    outputs = np.concatenate([hasher.model_.outputs(chunk) for chunk in data.base.chunks()])
    labels = np.searchsorted(classes, np.asarray(data.base.labels))
    if recipe is None:
        return seen(mean_ap, outputs, labels, code_centers(hasher.train_codes_, part.labels, bits=bits)[0])
    return seen(mean_ap, outputs, labels, hasher.centers_, kept[0])


def seen(
    mean_ap: float,
    outputs: Floats,
    labels: npt.NDArray[np.int64],
    centers: npt.NDArray[np.int8],
    guided: Guided | None = None,
) -> Looked:
    """What is to be seen of outputs ``[n, bits]``, by the objective that they were trained with where it is guided."""
    import torch

    wanted = centers[labels]
    agree = (np.where(outputs >= 0, 1, -1) @ centers.T) == centers.shape[1]
    at = np.where(agree.any(1), agree.argmax(1), -1)
    certainty = pull = np.full(outputs.shape, np.nan)
    if guided is not None:
        surrogate = guided.surrogate.eval()
        logits = torch.as_tensor(outputs, dtype=torch.float32).requires_grad_()
        index = surrogate.block_index(torch.as_tensor(wanted))
        of_centers = surrogate(logits).log_softmax(-1).gather(2, index[:, :, None])
        (gradient,) = torch.autograd.grad(of_centers.sum(), logits)
        pull = gradient.numpy() * wanted
        joint = surrogate.joint(logits).detach().numpy().astype(np.float64)  # [n, blocks, outcomes]
        positive = marginals(joint).reshape(len(labels), -1)[:, : surrogate.bits]
        certainty = np.where(wanted > 0, positive, 1 - positive)
    return Looked(mean_ap, outputs * wanted, at, labels, certainty, pull)


def together(looked: Sequence[Looked]) -> Looked:
    """The rows of several models."""
    arrays = [
        np.concatenate([getattr(one, name) for one in looked])
        for name in ("margins", "at", "labels", "certainty", "pull")
    ]
    return Looked(float(np.mean([one.mean_ap for one in looked])), *arrays)


def rows(found: Mapping[str, Mapping[str, Looked]]) -> list[list[str]]:
    """A row a method and a recipe."""
    lines = []
    for method, recipes in found.items():
        for name, looked in recipes.items():
            right, whole = looked.at == looked.labels, looked.at >= 0
            shares = (np.mean(looked.margins < 0), right.mean(), (whole & ~right).mean())
            of_guidance = [half_width(looked), *np.interp(PULLS_AT, _MIDDLES, looked.by_margin(looked.pull))]
            cells = [f"{100 * looked.mean_ap:.2f}", *(f"{share:.1%}" for share in shares)]
            cells += ["–" if np.isnan(value) else f"{value:.2f}" for value in of_guidance]
            lines.append([METHOD_TITLES[method], name, *cells])
    return lines


def half_width(looked: Looked) -> float:
    """Half of the margins' range in which P(the centre's bit) rises from Φ(−1) to Φ(1): 1 were it Φ itself."""
    from scipy.stats import norm

    sure = looked.by_margin(looked.certainty)
    known = ~np.isnan(sure)
    if not known.any():
        return np.nan
    low, high = np.interp(norm.cdf([-1, 1]), np.maximum.accumulate(sure[known]), _MIDDLES[known], np.nan, np.nan)
    return float(high - low) / 2


def draw(found: Mapping[str, Mapping[str, Looked]]) -> Figure:
    """By margin: how sure the surrogate is of the centre's bit, how hard it pulls, and how many outputs there are."""
    from scipy.stats import norm

    figure, grid = new_grid(len(found), 3, 4.2, 2.9, sharex=True)
    for (method, recipes), (sure, pull, count) in zip(found.items(), grid, strict=True):
        for (name, looked), color in zip(recipes.items(), palette(len(recipes)), strict=True):
            heights = np.histogram(looked.margins, _EDGES)[0] / looked.margins.size
            count.step(_MIDDLES, heights, where="mid", color=color, label=name)
            if RECIPES[name] is not None:
                sure.plot(_MIDDLES, looked.by_margin(looked.certainty), color=color, label=name)
                pull.plot(_MIDDLES, looked.by_margin(looked.pull), color=color, label=name)
        sure.plot(_MIDDLES, norm.cdf(_MIDDLES), "--", color="0.3", linewidth=1, label="Φ(margin)")
        pull.axhline(0, color="0.3", linewidth=1)
        sure.set_ylabel(METHOD_TITLES[method], fontsize=12)
    for axes, title in zip(
        grid[0], ("P(the centre's bit)", "pull, ∂ log P(centre) / ∂margin", "share of the bits"), strict=True
    ):
        axes.set_title(title)
        axes.legend(fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("margin")
    return figure


if __name__ == "__main__":
    main()
