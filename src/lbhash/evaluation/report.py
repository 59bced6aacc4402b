"""The report: all figures of a set of codes, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import partial, reduce, wraps
from html import escape
from typing import Any, Literal, NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_packed_alike, check_codes, check_same_width, check_width
from lbhash.codes.real import check_outputs, outputs_bits
from lbhash.evaluation import metrics
from lbhash.evaluation.lower_bound import Bound, bound_of_parts
from lbhash.evaluation.metrics import Curve, Empty, Normalize, curves
from lbhash.evaluation.metrics.common import EMPTY, NORMALIZE, Floats
from lbhash.evaluation.parts import Classes, Part, Share, class_numbers, in_turn, positions
from lbhash.evaluation.ranking import RankHistogram, Ranking, check_lengths, stable_rankings
from lbhash.evaluation.ranking.real import distinct_rows, real_rankings
from lbhash.evaluation.recognition import linear_probe_predict, predict_by_outputs, predict_from_counts
from lbhash.utils.formatting import number
from lbhash.utils.labels import Numbers, class_array, in_one_order, read_labels, rows_with_label
from lbhash.utils.validation import check_choice, check_filled, check_int, check_ints

P = ParamSpec("P")
Figures = dict[str, npt.NDArray[Any]]
"""Values of each query, ``[queries, …]``, by their names in the report."""

RANKS = (1, 10, 100, 1000)
"""The default ranks K, as far as the base reaches."""

VOTES = 100
"""The default number of base codes that vote, if the base has so many."""

Order = Literal["expected", "stable"]


class ClassFigures(NamedTuple):
    """Figures of each class that a scored query has, in the order of the classes; all ``[C]``."""

    label: npt.NDArray
    """The class, in the type of the labels: numbers, Booleans, or objects that are text."""
    queries: npt.NDArray[np.int64]
    """Its queries."""
    base: npt.NDArray[np.int64]
    """Its base codes."""
    map: Floats
    """The mean AP@k of its queries."""
    chance: Floats
    """The mean share of the base that is relevant to its queries: about what a random order would have for an mAP. Of
    several labels a row, a code is relevant that shares any of them with the query."""

    def of(self, figure: str) -> dict[Any, float]:
        """Return a figure by class."""
        return dict(zip(self.label.tolist(), getattr(self, figure).tolist(), strict=True))


class ByBits(NamedTuple):
    """mAP@k by Hamming distance, beside the figures of real-valued queries."""

    map: float
    """Expected over random orders of tied codes."""
    map_best: float
    """In the best order of tied codes."""
    map_worst: float
    """In the worst order of tied codes."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The figures of ``evaluate``.

    Every mean is over the queries with a relevant base code, or with ``empty`` "zero" over all queries. Figures by rank
    are for the order of ties that ``ties`` names. Base codes are ranked by the real outputs of the queries if these
    were given, else by Hamming distance. Figures within a radius and the bound are always of bits.

    >>> found = evaluate([[1, 1, 1]], ["cat"], [[1, 1, 1], [1, 1, -1]], ["cat", "dog"])
    >>> found.map, found.to_pandas().shape[1] > 10
    (1.0, True)
    """

    map: float
    """mAP@k, k being ``top_k``: expected over random orders of tied codes, or in the order of the base."""
    map_best: float
    """mAP@k in the best order of tied codes."""
    map_worst: float
    """mAP@k in the worst order of tied codes."""
    by_bits: ByBits | None
    """mAP@k by Hamming distance, if the other figures are by the real outputs of the queries; else None."""
    map_floor: float
    """Mean of ``average_precision_floor`` over the queries: the lowest AP that their mis-ranks leave possible."""
    map_macro: float
    """Mean over the classes of each one's mAP@k (``by_class``), so that a small class counts as much as a large one."""
    by_class: ClassFigures
    """Queries, base codes and mAP@k of each class that a scored query has."""
    top_k: int
    """Length of the ranked list that mAP, NDCG, ACG and WAP are computed on."""
    ties: str
    """"expected", or "stable": ties in the order of the base."""
    normalize: str
    """The number that average precision is divided by: "retrieved" or "all"."""
    empty: str
    """Queries without a relevant base code are left out of the means ("skip") or count as 0 in them ("zero")."""
    ranks: tuple[int, ...]
    """The ranks K of precision, recall and F1 at K."""
    precision_at: Floats
    """Mean P@K, ``[ranks]``."""
    recall_at: Floats
    """Mean recall of the first K, ``[ranks]``."""
    f1_at: Floats
    """Mean F1 of the first K, ``[ranks]``."""
    r_precision: float
    """Mean precision of as many places as the query has relevant base codes."""
    mean_misrank: float
    """Mean number of irrelevant base codes before a relevant one, the paper's m; never over queries without one."""
    ndcg: float
    """Mean NDCG@k, k being ``top_k``, with the gain 2^grade − 1."""
    acg: float
    """Mean ACG@k: the mean grade of the first ``top_k`` places."""
    wap: float
    """Mean WAP@k, the weighted average precision."""
    radius: int
    """The Hamming radius, in bits, of precision, recall and the share of empty results within it."""
    precision_within_radius: float
    """Mean precision within the radius; it is 0 for a query that finds nothing."""
    recall_within_radius: float
    """Mean recall within the radius."""
    empty_within_radius: float
    """Share of the queries that find no base code within the radius."""
    curve: Curve
    """Mean precision and recall by radius, from 0 to ``bits``."""
    rank_curve: Curve
    """Mean precision and recall by rank."""
    bound: Bound
    """min D_inter, max D_intra and their ratio, of the base codes; ``at_percentile`` has the paper's 99.9 %."""
    knn_accuracy: float | None
    """Share of all queries whose class a vote of the ``k`` nearest base codes gets right; None if multi-label."""
    k: int
    """Number of base codes that vote."""
    probe_accuracy: float | None
    """Share of all queries that a linear probe on the base codes gets right; None unless asked for."""
    bits: int
    """Length of a code."""
    queries: int
    """Number of queries."""
    base: int
    """Number of base codes."""
    empty_queries: int
    """Number of queries to which no base code is relevant."""
    largest_grade: int
    """The most labels that a query and a base code share; 1 for single-label data."""

    def summary(self) -> list[tuple[str, str]]:
        """Return the lines that people read first, as names and figures."""
        at = "" if self.top_k == self.base else f"@{self.top_k:,}"
        rank = f"the first {self.ranks[-1]:,}"
        within = f"{self.precision_within_radius:.4f}, {self.recall_within_radius:.4f}"
        bound = self.bound
        return [
            (f"mAP{at}, ties {self.ties}", f"{self.map:.4f}"),
            ("  worst to best order of ties", f"{self.map_worst:.4f} to {self.map_best:.4f}"),
            ("  mean over classes (macro)", f"{self.map_macro:.4f}"),
            *([] if self.by_bits is None else [("  by Hamming distance, worst to best", _of_bits(self.by_bits))]),
            ("R-precision", f"{self.r_precision:.4f}"),
            (f"precision, recall of {rank}", f"{self.precision_at[-1]:.4f}, {self.recall_at[-1]:.4f}"),
            (f"precision, recall within radius {self.radius}", within),
            (f"empty within radius {self.radius}", f"{self.empty_within_radius:.4f}"),
            (f"accuracy by a vote of {self.k}", number(self.knn_accuracy, 4)),
            ("D_inter, D_intra", f"{number(bound.inter)}, {number(bound.intra)}"),
            ("ratio", number(bound.ratio, 3)),
            ("queries, base codes, bits", f"{self.queries:,}, {self.base:,}, {self.bits}"),
        ]

    def __repr__(self) -> str:
        at = "" if self.top_k == self.base else f"@{self.top_k:,}"
        bound, radius = self.bound, self.radius
        precise = f"{self.precision_at[-1]:.4f}, {self.recall_at[-1]:.4f} of the first {self.ranks[-1]:,}"
        within = f"{self.precision_within_radius:.4f}, {self.recall_within_radius:.4f} within radius {radius}"
        return "\n".join(
            [
                f"mAP{at} {self.map:.4f}, ties {self.ties}: from {self.map_worst:.4f} to {self.map_best:.4f}"
                + ("" if self.by_bits is None else f"; by bits {_of_bits(self.by_bits)}"),
                f"precision, recall: {precise}; {within}",
                f"mAP over classes {self.map_macro:.4f}, accuracy by a vote of {self.k} {number(self.knn_accuracy, 4)}",
                f"D_inter {number(bound.inter)}, D_intra {number(bound.intra)}, ratio {number(bound.ratio, 3)}",
                f"{self.queries:,} queries, {self.base:,} base codes, {self.bits} bits",
            ]
        )

    def to_pandas(self) -> Any:
        """Return the figures as a table of pandas with one row; those at rank K are ``precision_at_K`` and so on.

        The figures of the classes are a table as ``pandas.DataFrame(report.by_class._asdict())``.
        """
        import pandas as pd  # type: ignore[import-untyped]

        figures = {name: value for name, value in vars(self).items() if isinstance(value, (int, float, str))}
        for name in ("precision_at", "recall_at", "f1_at"):
            figures |= {f"{name}_{rank}": value for rank, value in zip(self.ranks, getattr(self, name), strict=True)}
        figures |= {"inter": self.bound.inter, "intra": self.bound.intra, "ratio": self.bound.ratio}
        maybe = {name: getattr(self, name) for name in ("knn_accuracy", "probe_accuracy")}
        maybe |= {f"by_bits_{name}": getattr(self.by_bits, name, None) for name in ByBits._fields}
        return pd.DataFrame([figures | maybe])

    def _repr_html_(self) -> str:
        """Return the summary as a table, for notebooks."""
        rows = "".join(
            f"<tr><td style='text-align: left'>{escape(name.strip())}</td><td>{escape(value)}</td></tr>"
            for name, value in self.summary()
        )
        return f"<table>{rows}</table>"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it: plain numbers and lists and None for NaN or infinity."""
        figures = {name: value for name, value in vars(self).items() if not isinstance(value, (tuple, Bound))}
        figures |= {"ranks": self.ranks, "bound": self.bound, "bound_99.9": self.bound.at_percentile()}
        figures |= {"by_class": self.by_class._asdict(), "by_bits": self.by_bits and self.by_bits._asdict()}
        for name, by, curve in (("curve", "radius", self.curve), ("rank_curve", "rank", self.rank_curve)):
            figures[name] = {by: curve.at, "precision": curve.precision, "recall": curve.recall}
        return {name: _plain(value) for name, value in figures.items()}


def _queries_first(function: Callable[P, Report]) -> Callable[P, Report]:
    """Refuse more queries than base codes by position: most likely the two have changed places."""

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> Report:
        queries, base = (len(codes) if isinstance(codes, Sized) else 0 for codes in (*args, (), (), ())[:3:2])
        if len(args) > 2 and queries > base:
            said = f"{queries:,} queries and {base:,} base codes are given by position"
            how = "if you mean it, name the arguments (query_codes=…, base_codes=…)"
            raise ValueError(f"{said}; queries come first: {how}")
        return function(*args, **named)

    return checked


@_queries_first
def evaluate(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    top_k: int | None = None,
    *,
    k: int | None = None,
    ranks: Sequence[int] | None = None,
    radius: int = 2,
    ties: Order = "expected",
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
    probe: bool = False,
    bits: int | None = None,
    query_outputs: npt.ArrayLike | None = None,
) -> Report:
    """Evaluate codes by exhaustive comparison of every query with every base code.

    Args:
        query_codes: packed, ``uint8 [queries, bytes]``; or a column for each bit, of ±1, of 0 and 1 or of Booleans
            (``lbhash.codes.as_packed_alike``).
        query_labels: class numbers or names ``[queries]``, or multi-label (``lbhash.utils.labels.read_labels``). Codes
            without a label are left out, and a line on standard error says so.
        base_codes: as the query codes, in memory or memory-mapped.
        base_labels: like the query labels, with the same number of classes if they are multi-hot.
        top_k: the length of the ranked list for mAP@k, NDCG, ACG and WAP, from 1 to the size of the base (the default).
        k: the number of base codes that vote in recognition. By default 100, or the median size of the base's classes
            if it is smaller, since other classes would then decide the vote.
        ranks: the K of precision, recall and F1; by default 1, 10, 100 and 1,000, as far as the base reaches.
        radius: Hamming radius of the look-up, from 0 to the length of a code.
        ties: "expected", over random orders of tied codes; or "stable", in the order of the base, to compare with other
            programs. "stable" sorts, which takes a hundred times as long, and takes no ``query_outputs``.
        normalize: the number that average precision is divided by; see
            ``lbhash.evaluation.metrics.average_precision``.
        empty: queries without a relevant base code are left out of the means ("skip") or count as 0 in them ("zero").
        probe: whether to fit a linear probe to the base codes (seconds to a minute).
        bits: the length h of a code; by default the number of columns of codes or outputs, or 8 * bytes.
        query_outputs: the real outputs of the queries, ``[queries, bits]`` (``Hasher.outputs``): the base is ranked by
            them, as in searches, and ``by_bits`` has the mAP by Hamming distance.

    Raises:
        TypeError, ValueError: an argument is not as above; the widths or lengths do not fit together; there are no
            queries, no base codes, or no query to which a base code is relevant; or there are more queries than base
            codes, and the arguments are not given by name.

    >>> codes = [[1, 1, 1], [1, 1, -1], [-1, -1, -1]]
    >>> evaluate([[1, 1, 1]], ["cat"], codes, ["cat", "dog", "cat"]).map
    0.8333333333333333
    """
    bits = outputs_bits(query_outputs) if bits is None else bits
    (base, queries), length = as_packed_alike(bits, base_codes=base_codes, query_codes=query_codes)
    return evaluate_parts(
        queries,
        query_labels,
        [(base, base_labels)],
        top_k,
        k=k,
        ranks=ranks,
        radius=radius,
        ties=ties,
        normalize=normalize,
        empty=empty,
        probe=probe,
        bits=length,
        query_outputs=query_outputs,
    )


def evaluate_parts(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    parts: Iterable[tuple[npt.ArrayLike, Any]],
    top_k: int | None = None,
    *,
    share: Callable[[Sequence[Part]], Share] = in_turn,
    k: int | None = None,
    ranks: Sequence[int] | None = None,
    radius: int = 2,
    ties: Order = "expected",
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
    probe: bool = False,
    bits: int | None = None,
    query_outputs: npt.ArrayLike | None = None,
) -> Report:
    """Evaluate codes against a base in parts, with the report of ``evaluate`` to the last digit.

    ``parts`` are pairs of base codes and labels, the codes in memory or memory-mapped. By default this process counts
    the parts one after the other. To count them elsewhere, give ``share``. It takes the checked parts, and returns a
    function that calls a given function on each part and returns the results (``lbhash.pipeline.cluster.sharing``).
    ``ties="stable"`` and ``probe`` need the base in one part. All other options and the errors are those of
    ``evaluate``.
    """
    (queries, wanted), known, base, names, length = _check(query_codes, query_labels, parts, bits)
    size, of = sum(len(part.codes) for part in base), "the size of the base"
    top_k = size if top_k is None else check_int(top_k, "top_k", 1, size, of)
    k = None if k is None else check_int(k, "k", 1, size, of)
    ranks = [rank for rank in RANKS if rank <= size] if ranks is None else ranks
    ranks = tuple(sorted(set(check_ints(ranks, "ranks", 1, size, of))))
    check_filled(ranks, "ranks", "rank")
    radius = check_int(radius, "radius", 0, length, "the length of a code")
    ties = check_choice(ties, "ties", ("expected", "stable"))
    normalize = check_choice(normalize, "normalize", NORMALIZE)
    empty = check_choice(empty, "empty", EMPTY)
    settings: dict[str, Any] = {"ranks": ranks, "ties": ties, "normalize": normalize, "empty": empty, "radius": radius}
    if probe and wanted.ndim == 2:
        raise ValueError("probe is True, and the labels are multi-label; a linear probe takes class numbers [n] only")
    if len(base) > 1 and (probe or ties == "stable"):
        what = "probe is True" if probe else "ties is 'stable'"
        raise ValueError(f"{what}, which needs the base in one part; it is in {len(base)}")

    if query_outputs is not None and ties == "stable":
        raise ValueError("ties is 'stable', which ranks by Hamming distance; leave query_outputs out")
    asked = None
    if query_outputs is not None:
        asked = check_outputs(query_outputs, check_codes(query_codes), length).some(known)
    counting = share(base)
    classes = class_numbers(counting) if wanted.ndim == 1 else np.arange(wanted.shape[1])
    # A query's class that the base does not have gets a number that no base code has.
    placed = (
        wanted if wanted.ndim == 2 else np.where(np.isin(wanted, classes), positions(wanted, classes), len(classes))
    )
    histogram = reduce(RankHistogram.merge, counting(partial(_count_ranks, queries, placed, length, classes)))
    some_relevant = histogram.graded.any(axis=(1, 2))
    if not some_relevant.any():
        none = "no base code is relevant to any query: base_labels and query_labels have no label in common"
        raise ValueError(f"{none}, so there is nothing to evaluate")
    scored = some_relevant if empty == "skip" else np.ones(len(queries), bool)

    def mean(values: npt.NDArray[Any]) -> Any:
        found = np.nan_to_num(values[scored], nan=0.0).mean(axis=0)  # a query without a relevant base code counts as 0
        return found if found.ndim else float(found)

    # Queries of equal codes and labels have equal figures, which are computed once; and trained codes repeat.
    unique, inverse = Ranking(histogram.total[histogram.unique], histogram.graded[histogram.unique]), histogram.inverse
    by_rank = partial(_by_rank, top_k=top_k, ranks=ranks, normalize=normalize)
    over_ties = partial(_over_ties, top_k=top_k, normalize=normalize)
    found = by_rank(unique) | over_ties(unique) | _by_radius(unique, radius)
    figures = {name: values[inverse] for name, values in found.items()}
    by_bits = None
    if ties == "stable":
        figures |= _in_blocks(stable_rankings(queries, wanted, base[0].codes, base[0].labels), by_rank)
    elif asked is not None:
        by_bits = ByBits(*(mean(figures[name]) for name in ByBits._fields))
        held = distinct_rows(base)
        figures |= _in_blocks(real_rankings(asked, wanted, held), by_rank, over_ties)
    for name, at in (("curve", np.arange(length + 1)), ("rank_curve", curves.curve_ranks(size))):
        points = figures.pop(f"{name}_precision"), figures.pop(f"{name}_recall")
        settings[name] = curves.mean_curve(at, *points, empty)
    mean_misrank = float(np.nanmean(figures.pop("mean_misrank")))
    bound = bound_of_parts(counting, classes, length)
    if k is None:
        sizes = bound.intra_counts[bound.present].sum(axis=1) if wanted.ndim == 1 else size
        k = min(VOTES, int(np.median(sizes)))
    knn_accuracy = probe_accuracy = None
    if wanted.ndim == 1:
        if asked is None:
            right = predict_from_counts(queries, counting, classes, histogram.total, k) == placed
        else:
            right = predict_by_outputs(asked, held, k) == wanted
        knn_accuracy = float(np.mean(right))
    if probe:
        predicted = linear_probe_predict(queries, base[0].codes, base[0].labels, length)
        probe_accuracy = float(np.mean(predicted == wanted))
    relevant = histogram.graded.sum(axis=(1, 2), dtype=np.int64) / size
    by_class = _by_class(
        wanted, np.where(scored, np.nan_to_num(figures["map"]), np.nan), relevant, classes, bound, names
    )
    settings |= {name: mean(values) for name, values in figures.items()}
    return Report(
        **settings,
        mean_misrank=mean_misrank,
        by_bits=by_bits,
        top_k=top_k,
        map_macro=float(by_class.map.mean()),
        by_class=by_class,
        bound=bound,
        knn_accuracy=knn_accuracy,
        k=k,
        probe_accuracy=probe_accuracy,
        bits=length,
        queries=len(queries),
        base=size,
        empty_queries=int((~some_relevant).sum()),
        largest_grade=1 + int(np.flatnonzero(histogram.graded.any(axis=(0, 2))).max()),
    )


def _check(
    query_codes: npt.ArrayLike, query_labels: Any, parts: Iterable[tuple[npt.ArrayLike, Any]], bits: int | None
) -> tuple[Part, npt.NDArray[np.bool_], list[Part], Sequence[Any], int]:
    """Return the queries that have a label, which these are, the base, the classes, and the length of a code."""
    queries, wanted = check_codes(query_codes, "query_codes"), read_labels(query_labels, "query_labels")
    check_lengths(queries, wanted, "query")
    base: list[PackedCodes] = []
    given = {"query_labels": wanted}
    length = 0
    for base_codes, base_labels in parts:
        codes = check_codes(base_codes, "base_codes")
        check_same_width(queries, codes, "query_codes", "base_codes")
        length = check_width(codes, bits, "base_codes")
        labels = read_labels(base_labels, "base_labels")
        check_lengths(codes, labels, "base")
        given[f"base_labels of part {len(base)}" if base else "base_labels"] = labels
        base.append(codes)
    check_filled(queries, "query_codes")
    check_filled(range(sum(map(len, base))), "base_codes")
    wanted, *others = in_one_order(given)
    rows_with_label(wanted.numbers, "query_codes")
    rows_with_label(np.concatenate([one.numbers for one in others]), "base_codes")
    asked, *held = (
        Part(codes, labels.numbers) if labels.known.all() else Part(codes[labels.known], labels.numbers[labels.known])
        for codes, labels in zip([queries, *base], [wanted, *others], strict=True)
    )
    return asked, wanted.known, held, wanted.classes, length


def _count_ranks(queries: PackedCodes, wanted: Numbers, bits: int, classes: Classes, part: Part) -> RankHistogram:
    histogram = RankHistogram(queries, wanted, bits)
    for codes, labels in part.chunks(classes):
        histogram.update(codes, labels)
    return histogram


def _in_blocks(rankings: Iterable[Ranking], *functions: Callable[[Ranking], Figures]) -> Figures:
    """Return the figures of all functions, of rankings of consecutive blocks of queries."""
    blocks = [{name: one for function in functions for name, one in function(part).items()} for part in rankings]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _by_rank(ranking: Ranking, top_k: int, ranks: tuple[int, ...], normalize: Normalize) -> Figures:
    """Return the figures that depend on the order of ties, with a row for each query, by their names in the report."""
    points = curves.rank_points(ranking)
    average = metrics.average_precision(ranking, top_k, "expected", normalize)
    graded = ranking.graded.shape[1] > 1
    found = {
        "map": average,
        "r_precision": metrics.r_precision(ranking),
        "mean_misrank": metrics.mean_misrank(ranking),
        "ndcg": metrics.ndcg_at(ranking, top_k),
        "acg": metrics.acg_at(ranking, top_k),
        "wap": metrics.weighted_average_precision(ranking, top_k, normalize) if graded else average,
        "rank_curve_precision": points.precision,
        "rank_curve_recall": points.recall,
    }
    for name in ("precision_at", "recall_at", "f1_at"):
        found[name] = np.stack([getattr(metrics, name)(ranking, rank) for rank in ranks], axis=1)
    return found


def _over_ties(ranking: Ranking, top_k: int, normalize: Normalize) -> Figures:
    """Return the extremes over the orders of ties, as ``_by_rank`` does."""
    return {
        "map_best": metrics.average_precision(ranking, top_k, "best", normalize),
        "map_worst": metrics.average_precision(ranking, top_k, "worst", normalize),
        "map_floor": metrics.average_precision_floor(ranking),
    }


def _by_radius(ranking: Ranking, radius: int) -> Figures:
    """Return the figures within a Hamming radius, as ``_by_rank`` does."""
    points = curves.radius_points(ranking)
    return {
        "precision_within_radius": metrics.precision_within(ranking, radius),
        "recall_within_radius": metrics.recall_within(ranking, radius),
        "empty_within_radius": metrics.empty_within(ranking, radius),
        "curve_precision": points.precision,
        "curve_recall": points.recall,
    }


def _by_class(
    wanted: Numbers, precision: Floats, relevant: Floats, classes: Classes, found: Bound, names: Sequence[Any]
) -> ClassFigures:
    """Return the figures of each class by each query's AP, NaN if it is not scored, and relevant share of the base."""
    scored = ~np.isnan(precision)
    asked, queries, means = class_means(wanted[scored], precision[scored])
    sizes = dict(zip(classes.tolist(), found.intra_counts.sum(axis=1).tolist(), strict=True))
    base = np.array([sizes.get(label, 0) for label in asked.tolist()])
    chance = class_means(wanted[scored], relevant[scored])[2]
    return ClassFigures(class_array([names[label] for label in asked.tolist()]), queries, base, means, chance)


def class_means(labels: Numbers, values: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Return the classes that rows have, how many rows each has, and the mean of their values, ``[C]`` each.

    ``labels`` are class numbers ``[n]`` or multi-hot ``[n, C]``, and ``values`` ``[n]``.
    """
    sums: Any
    if labels.ndim == 2:
        classes = np.flatnonzero(labels.any(axis=0))
        counts, sums = labels[:, classes].sum(axis=0, dtype=np.int64), values @ labels[:, classes]
    else:
        classes, members = np.unique(labels, return_inverse=True)
        counts, sums = np.bincount(members).astype(np.int64), np.bincount(members, weights=values)
    return classes, counts, sums / counts


def _of_bits(found: ByBits) -> str:
    return f"{found.map:.4f}, {found.map_worst:.4f} to {found.map_best:.4f}"


def _plain(value: Any) -> Any:
    if isinstance(value, Bound):
        value = {name: getattr(value, name) for name in ("inter", "intra", "ratio")}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (np.ndarray, tuple)):
        return [_plain(item) for item in np.asarray(value).tolist()]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
