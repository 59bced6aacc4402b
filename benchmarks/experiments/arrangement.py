"""Who is whose neighbor: what is confused, and where hosts and designs put it. Writes a part of ``docs/guidance.md``.

    python -m benchmarks.experiments.arrangement --data cifar10=FILE

Rows are cut from the training split. What is confused is what a linear model takes for each other that has not seen the
row's label. A plain host has its own centers, the majority of its codes; designed and arranged centers are those of
CSQ_D, whose mAP stands beside them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.page import check_part, markdown_table, replace_part
from benchmarks.experiments.scored import fit_seeds

from lbhash.centers import Centers, confused_distance, mean_distance, minimum_distance, pairwise_distances
from lbhash.centers.targets import ARRANGED, DESIGNED
from lbhash.evaluation.bound import code_centers
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.settings import METHOD_TITLES, METHODS, Settings
from lbhash.reproduce.runs.sources import DIGITS, Source
from lbhash.training.confusion import confusion
from lbhash.utils.files import replacing
from lbhash.utils.plotting import new_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PART = "arrangement"
COLUMNS = ("centers", "D_inter", "mean D", "D of the confused − mean D", "mAP")


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Centers ``[C, bits]``, what is confused ``[C, C]``, and the mAP in % of the codes that are around them."""

    centers: Centers
    confusion: npt.NDArray[np.float64]
    mean_ap: float


def main() -> None:
    """Train, and write the table and the image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Source.of, default=DIGITS, help="NAME=FILE or digits, of one label a row")
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
            raise ValueError(f"data is {source.name!r}, whose rows have several labels; a code is around one center")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    hashers = {
        f"{METHOD_TITLES[method]}'s own": Hasher(given.bits, method, guided=False, centers=DESIGNED)
        for method in METHODS
    }
    hashers |= {f"{kind}, CSQ_D": Hasher(given.bits, "csq", centers=kind) for kind in (DESIGNED, ARRANGED)}
    found = {
        name: arrangements(hasher.set_params(epochs=given.epochs, recipe="paper", device="cpu"), source, of.all_seeds())
        for name, hasher in hashers.items()
    }
    table = markdown_table(COLUMNS, [row(name, own) for name, own in found.items()], left=0)
    print(table)
    with replacing(given.out.with_name("guidance-arrangement.png")) as temporary:
        draw({name: own[0] for name, own in found.items()}).savefig(temporary, format="png", dpi=110)
    replace_part(given.out, PART, table)


def arrangements(hasher: Hasher, source: Source, seeds: range) -> list[Arrangement]:
    """Return the arrangement of each seed."""
    made = []
    for seed in seeds:
        part = source.training(seed)[0]
        (trained,) = fit_seeds(hasher, part, source.classes(), [seed])
        own = trained.centers_
        if not hasher.guided:
            own = code_centers(trained.train_codes_, part.labels, bits=hasher.bits)[0]
        data = source.dataset(trained.seed)
        query, base = trained.encode_split(data.query), trained.encode_split(data.base)
        report = evaluate(query, data.query.labels, base, data.base.labels, source.top_k(), bits=hasher.bits)
        made.append(Arrangement(own, confusion(part, source.classes()), 100 * report.map))
    return made


def row(name: str, found: list[Arrangement]) -> list[str]:
    """Means over the seeds."""
    figures = [
        (
            minimum_distance(one.centers),
            mean_distance(one.centers),
            confused_distance(one.centers, one.confusion),
            one.mean_ap,
        )
        for one in found
    ]
    closest, mean, confused, mean_ap = np.mean(figures, axis=0).round(2) + 0.0  # and no -0
    return [name, f"{closest:.1f}", f"{mean:.1f}", f"{confused:.2f}", f"{mean_ap:.2f}"]


def draw(found: dict[str, Arrangement]) -> Figure:
    """What is confused, and the distances of the centers, class by class."""
    shown = {name: one for name, one in found.items() if name.startswith(("HashNet", DESIGNED, ARRANGED))}
    figure, (panels,) = new_grid(1, 1 + len(shown), 3.6, 3.4)
    one = next(iter(found.values())).confusion
    _matrix(figure, panels[0], 100 * (one + one.T) / one.sum(), "confused, % of the rows", "Reds", (0, None))
    distances = {name: pairwise_distances(one.centers) for name, one in shown.items()}
    apart = np.stack(list(distances.values()))[:, ~np.eye(len(one), dtype=bool)]
    for axes, (name, between) in zip(panels[1:], distances.items(), strict=True):
        _matrix(figure, axes, between, f"distance: {name}", "Blues_r", (apart.min() - 1, apart.max()))
    return figure


def _matrix(
    figure: Figure, axes: Axes, values: npt.NDArray, title: str, colors: str, limits: tuple[float, float | None]
) -> None:
    """Draw a matrix of values of pairs of classes."""
    values = values.astype(np.float64)
    np.fill_diagonal(values, np.nan)
    image = axes.imshow(values, cmap=colors, vmin=limits[0], vmax=limits[1])
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("class")
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, shrink=0.8)


if __name__ == "__main__":
    main()
