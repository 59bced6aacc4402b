"""Tables that the commands print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Column, Table

from lbhash.utils.formatting import number, some_names
from lbhash.utils.terminal import Console, printable

if TYPE_CHECKING:
    from lbhash.evaluation.neighbors import NeighborReport
    from lbhash.evaluation.report import Report
    from lbhash.pipeline.unseen import UnseenReport

WEAKEST = 5
"""The most classes that a report names."""

_CLASS = ("class", "map", "train", "query", "chance")
_ANY = "a row counts as found if it shares any label with the query; a class's mAP is of the queries that have it"


def print_figures(metrics: Mapping[str, Any]) -> None:
    """Print the metrics of ``train_model`` for labeled data: on new rows, on training rows, and by class."""
    out = Console(highlight=False)
    split, bits = metrics["split"], metrics["bits"]
    out.print(
        f"{metrics['data']}: {metrics['method']}, {bits} bits ({-(-bits // 8)} bytes a row), "
        f"trained in {metrics['train_seconds']:.1f} s",
        *_split_lines(metrics),
        sep="\n",
    )
    table = Table("searched in", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("mAP", "macro mAP", "k-NN", "by bits", "over ties"):
        table.add_column(name, justify="right", no_wrap=True)
    found = {"new rows": metrics["new_rows"], "rows that were trained on": metrics["trained_rows"]}
    if split["new"] and split["trained_base"]:
        found["the base, which holds both"] = metrics
    for name, figures in found.items():
        if figures is not None:
            shown = [number(figures[value], 3) for value in ("map", "map_macro", "knn_accuracy")]
            bits = figures["by_bits"]
            ties = f"{bits['map_worst']:.3f}–{bits['map_best']:.3f}"
            style = "bold" if name == "new rows" else ""
            table.add_row(name, *shown, f"{bits['map']:.3f}", ties, style=style)
    out.print(table)
    if metrics["posterior"] and metrics["posterior"]["weight"]:
        out.print(
            "a code is the network's bits joined with a class posterior: held-out rows were found better so. For "
            "classes that come later take --unseen 0.5 or --head bits"
        )
    if metrics["new_rows"] is None:
        out.print("every base row was trained on: no figure says how well new rows are found")
    bound = metrics["bound"]
    parts = {"D_inter": number(bound["inter"]), "D_intra": number(bound["intra"]), "ratio": number(bound["ratio"], 3)}
    alone = ": every code sits on its center" if bound["intra"] == 0 else ""
    out.print(", ".join(f"{name} {value}" for name, value in parts.items()), f"of the base{alone}")
    several = metrics["knn_accuracy"] is None
    if several:
        out.print(_ANY)
    scored = [one for one in metrics["classes"] if one["map"] is not None]
    if len(scored) > WEAKEST:
        print_weakest([[one[name] for name in _CLASS] for one in scored], "training rows", several)


def print_alternatives(metrics: Mapping[str, Any]) -> None:
    """Print the alternatives to codes, and a summary sentence."""
    found = metrics.get("alternatives")
    if found is None:
        return
    labeled = "neighbors" not in metrics
    figures = {"mAP": "map", "macro mAP": "map_macro"} if labeled else {}
    figures |= {"recall@10": "recall", "re-ranked": "reranked"}
    rows = (
        [one["name"], f"{one['bytes']:,}", *(f"{one[name]:.3f}" for name in figures.values())] for one in found["rows"]
    )
    print_table(["stored per row", "bytes", *figures], rows)
    out = Console(highlight=False)
    share = 100 / max(100, found["base"])
    out.print(f"re-ranked: recall@10 if 100 candidates, {share:.0%} of these rows, are ranked again by embeddings")
    out.print(_said(found, labeled, "new" if metrics.get("new_rows") else "trained"))
    if found["left_out"]:
        names = ", ".join(found["left_out"])
        out.print(f"left out, to take no more than a third of the training's time: {names}")


def _said(found: Mapping[str, Any], labeled: bool, base: str) -> str:
    """Return the summary of a table of alternatives, for new or trained rows."""
    from lbhash.pipeline.alternatives import CLASS, CODES, COSINE

    rows = {one["name"]: one for one in found["rows"]}
    ours, exact, by_class = (rows.get(name) for name in (CODES, COSINE, CLASS))
    of = f"{found['queries']:,} queries in {found['base']:,} rows"
    if ours is None or exact is None:
        return f"({of})"
    line = f"These codes: {ours['bytes']:,} bytes a row instead of {exact['bytes']:,}, "
    if labeled:
        line += f"mAP of {base} rows {ours['map']:.2f} instead of {exact['map']:.2f}"
        line += "" if by_class is None else f"; {CLASS} has {by_class['map']:.2f} in {by_class['bytes']} bytes"
    else:
        line += f"and {ours['recall']:.0%} of the ten nearest"
        line += f"; {ours['reranked']:.0%} with 100 re-ranked"
    return f"{line} ({of})."


def _split_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the rows in each split, and about classes that are too small to be split."""
    split = metrics["split"]
    yield (
        f"{split['classes']:,} classes: {split['train']:,} training rows, {split['query']:,} queries, "
        f"{split['new']:,} new rows"
    )
    if split["only_train"]:
        why = "of one or two rows only train" if metrics["protocol"] == "holdout" else "have no query"
        yield f"{split['only_train']:,} classes {why}: no figure has them"
    if split["few"]:
        yield f"{split['few']:,} classes of fewer than ten rows give one query and one new row each"


def print_weakest(classes: Iterable[Sequence[Any]], rows: str, several: bool) -> None:
    """Print the classes with the lowest mAP: name, mAP, and number of rows (with the heading ``rows``).

    If a row may have ``several`` labels, also print the class's queries and its mAP by chance.
    """
    weakest = sorted(classes, key=lambda one: one[1])[:WEAKEST]
    names = ("weakest classes", "mAP", rows, *(("queries", "by chance") if several else ()))
    cells = (
        [str(label), f"{precision:.3f}", f"{count:,}", *([f"{queries:,}", f"{chance:.3f}"] if several else [])]
        for label, precision, count, queries, chance in weakest
    )
    print_table(names, cells)


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table; the first column is aligned left, the others right."""
    first, *others = names
    columns = [Column(first), *(Column(name, justify="right", no_wrap=True) for name in others)]
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_training(training: Mapping[str, Any]) -> None:
    """Print which epoch's weights were kept, if one was chosen."""
    if training["monitor"] is None:
        return
    line = "epoch {epoch} of {epochs} (from 0) was kept: {monitor} {value:.4g}"
    if training["value"] is None:
        line = "no epoch had a {monitor} to choose it by; the weights are the last one's"
    elif training["stopped_early"]:
        line += ", and training ended early"
    Console().print(line.format(**training), soft_wrap=True, highlight=False)


def print_unlabeled(metrics: Mapping[str, Any]) -> None:
    """For data without labels, print the fitted method, the neighbors that its codes find, and advice on labels."""
    compared, count = metrics["choice"], metrics["neighbor_candidates"][0]
    print_choice(compared)
    why = ", the best of the codes above," if compared else ""
    lines = [
        f"{metrics['data']} has no labels: fitted {metrics['method']}{why} in {metrics['train_seconds']} s; its "
        f"{metrics['bits']} bits keep the neighbors of the embeddings",
        *(
            f"of the {k:,} nearest by cosine, {recall:.1%} are among the {k:,} nearest codes, {by_bits:.1%} by the "
            f"bits that differ ({metrics['queries']:,} queries that were not fitted)"
            for k, recall, by_bits in zip(
                metrics["neighbors"], metrics["neighbor_recall"], metrics["by_bits"]["neighbor_recall"], strict=True
            )
        ),
        f"to find 95 % of the {metrics['neighbors'][0]} nearest among these {metrics['base']:,} rows, re-rank "
        f"{count:,} candidates, {count / metrics['base']:.1%} of them; more rows need more: index build --vectors "
        "int8, and search --rerank embeddings",
        *(["more bits find more of them: --bits 256"] if metrics["bits"] < 256 else []),
        "with labels (--labels FILE or --label-column NAME) the codes would learn which rows belong together: "
        "docs/search.md says what that is worth",
    ]
    Console().print(*lines, sep="\n", soft_wrap=True, highlight=False)


def print_choice(compared: Sequence[Mapping[str, Any]]) -> None:
    """Print the methods that were compared on held-out rows, the chosen one first; print nothing if none were."""
    if not compared:
        return
    rows = ([one["method"], f"{one['recall']:.3f}", f"{one['reranked']:.3f}"] for one in compared)
    print_table(("on held-out rows", "recall@10", "with 100 candidates re-ranked"), rows)


def print_neighbor_report(report: NeighborReport) -> None:
    """Print an evaluation by neighbors, one line for each k."""
    second = (f"with {count:,} re-ranked" for count in report.rerank)
    table = Table("nearest by cosine", "recall@k", "mAP, expected over ties", *second, box=SIMPLE_HEAD)
    for k, *values, reranked in zip(report.k, report.recall, report.map, report.reranked, strict=True):
        table.add_row(f"{k:,}", *(f"{value:.4f}" for value in (*values, *reranked)))
    Console().print(table)
    Console().print(f"{report.queries:,} queries, {report.base:,} base codes, {report.bits} bits", highlight=False)


def print_unseen(reports: Sequence[UnseenReport]) -> None:
    """Print methods' figures for trained and left-out classes: means and standard deviations over the draws."""
    names = {
        "seen_map": "seen mAP",
        "unseen_map": "unseen mAP",
        "transfer_accuracy": "transfer",
        "within_recall": "recall@10 within",
        "seen_map_real": "seen mAP, real queries",
        "unseen_map_real": "unseen mAP, real queries",
    }
    table = Table("", *(Column(report.method, no_wrap=True) for report in reports), box=SIMPLE_HEAD)
    for name, shown in names.items():
        values = [report.figures[name] for report in reports]
        table.add_row(shown, *(f"{number(v.mean(), 3)} ± {number(v.std(), 3)}" for v in values))
    Console(width=max(Console().width, 26 + 16 * len(reports))).print(table)
    first = reports[0]
    depth = "the whole base" if first.top_k is None else f"the first {first.top_k:,}"
    draws = len(first.figures["seen_map"])
    said = f"{first.bits} bits; {draws} draws of the classes; mAP over {depth}, expected over ties"
    Console().print(said, highlight=False, soft_wrap=True)


def print_report(report: Report) -> None:
    """Print an evaluation, one line for each metric."""
    order = "expected over ties" if report.ties == "expected" else "ties in the order of the base"
    depth = "" if report.top_k == report.base else f"@{report.top_k:,}"
    table = Table(show_header=False, box=SIMPLE_HEAD)
    table.add_row(f"mAP{depth}, {order}", f"{report.map:.4f}")
    table.add_row("  from the worst to the best order of ties", f"{report.map_worst:.4f} to {report.map_best:.4f}")
    table.add_row(f"  mean over the {len(report.by_class.map):,} classes (macro mAP)", f"{report.map_macro:.4f}")
    table.add_row("  lowest that its mis-ranks allow, whole base", f"{report.map_floor:.4f}")
    if report.largest_grade > 1:
        for name in ("ndcg", "acg", "wap"):
            table.add_row(f"{name.upper()}{depth}", f"{getattr(report, name):.4f}")
    table.add_row("R-precision", f"{report.r_precision:.4f}")
    table.add_row("mean mis-rank", f"{report.mean_misrank:,.1f}", end_section=True)
    for rank, *values in zip(report.ranks, report.precision_at, report.recall_at, report.f1_at, strict=True):
        shown = ", ".join(f"{value:.4f}" for value in values)
        table.add_row(f"precision, recall, F1 at {rank:,}", shown, end_section=rank == report.ranks[-1])
    table.add_row(f"precision within radius {report.radius}", f"{report.precision_within_radius:.4f}")
    table.add_row(f"recall within radius {report.radius}", f"{report.recall_within_radius:.4f}")
    table.add_row(f"share of empty results within radius {report.radius}", f"{report.empty_within_radius:.4f}")
    table.add_section()
    if report.knn_accuracy is not None:
        table.add_row(f"accuracy by a vote of {report.k}", f"{report.knn_accuracy:.4f}")
    if report.probe_accuracy is not None:
        table.add_row("accuracy by a linear probe", f"{report.probe_accuracy:.4f}")
    strict, mild = report.bound, report.bound.at_percentile()
    for title, found in (("D_inter, D_intra, ratio of the base", strict), ("  of 99.9 % of pairs and of codes", mild)):
        table.add_row(title, ", ".join((number(found.inter), number(found.intra, 1), number(found.ratio, 3))))
    table.add_section()
    table.add_row("queries, base codes, bits", f"{report.queries:,}, {report.base:,}, {report.bits}")
    without = {"skip": "left out", "zero": "scored 0"}[report.empty]
    table.add_row(f"queries without a relevant code ({without})", f"{report.empty_queries:,}")
    Console().print(table)
    classes, several = report.by_class, report.knn_accuracy is None
    if several:
        Console().print(_ANY, highlight=False)
    if len(classes.label) > WEAKEST:
        figures = (classes.label, classes.map, classes.base, classes.queries, classes.chance)
        print_weakest(zip(*(part.tolist() for part in figures), strict=True), "base codes", several)


def print_neighbors(found: Mapping[str, Any], ranking: str) -> None:
    """Print the neighbors of one query; ``ranking`` tells whether Hamming distance orders them."""
    label = "" if found["label"] is None else f", label {found['label']}"
    what = f"code {found['code']}" if found["row"] is None else f"row {found['row']}{label}"
    what = next((repr(found[name]) for name in ("image", "text") if name in found), what)
    neighbors = found["neighbors"]
    if not neighbors:
        print(f"nothing is near to {what}: the index is empty, or no code is within the radius or passes the filter")
        return
    by_bits = ranking == "hamming"
    further = [
        name for name in neighbors[0]["metadata"] if name not in ("row", "label", "labels")
    ]  # usually the row is the id
    labeled = any(neighbor["label"] is not None for neighbor in neighbors)
    distances = ["bits that differ"] if by_bits else ["distance", "bits that differ"]
    names = ["rank", "id", *distances, *(["label"] if labeled else []), *further]
    widest = max(cell_len(printable(str(neighbor["id"]))) for neighbor in neighbors)
    columns = [Column(name, overflow="fold", min_width=widest if name == "id" else None) for name in names]
    table = Table(*columns, title=f"nearest to {what}", title_justify="left")
    for neighbor in neighbors:
        cells = [neighbor["rank"], neighbor["id"]]
        cells += [neighbor["hamming"]] if by_bits else [number(neighbor["distance"], 3), neighbor["hamming"]]
        cells += ["–" if neighbor["label"] is None else neighbor["label"]] if labeled else []
        held = (neighbor["metadata"][name] for name in further)
        table.add_row(*map(str, [*cells, *("–" if value is None else value for value in held)]))
    Console(width=max(Console().width, widest + 9 * len(names))).print(table)  # no id is cut or folded


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print the facts about an index, a model or codes, one per line."""
    from lbhash.index.probes import Probes

    table = Table(show_header=False, box=SIMPLE_HEAD)
    for name, value in facts.items():
        if name == "probes":
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        elif isinstance(value, list):
            value = some_names(map(str, value))
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        shown = f"{value:,}" if isinstance(value, int) else str(value if value not in (None, "") else "–")
        table.add_row(name.replace("_", " "), shown)
    Console().print(table)
    for probes in facts.get("probes", ()):
        print(f"{facts['kind']}: {Probes(**probes)}")


def print_centers(facts: Mapping[str, Any]) -> None:
    """Print how centers are made, how far apart they are, and whether any could be farther apart."""
    classes, bits = facts["classes"], facts["bits"]
    plural = "center" if classes == 1 else "centers"
    title = f"{classes:,} {plural} of {bits} bit{'' if bits == 1 else 's'}, kind {facts['kind']}"
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_row("construction", facts["construction"])
    proven = f" (proven optimal: {facts['bound']})" if facts["optimal"] else ""
    table.add_row("minimum distance", f"{facts['minimum_distance']}{proven}")
    table.add_row("mean distance", number(facts["mean_distance"], 2))
    table.add_row("bit balance, worst |mean|", number(facts["bit_balance"], 3))
    for distance, count in facts["histogram"].items():
        table.add_row(f"pairs at distance {distance}", f"{count:,}")
    Console().print(table)


def method_rows() -> list[dict[str, Any]]:
    """Return each method's name, summary and source, and for a host its "tuned" settings with each pull.

    The settings are for 32 and 64 bits. Hosts come first, then coders, which have no pull.
    """
    from lbhash.losses.registry import METHODS, PULLS, recommended
    from lbhash.training.coders import CODERS

    kinds: dict[str, Any] = {**METHODS, **CODERS}
    return [
        {
            "name": name,
            "surrogate": None if name in CODERS else f"{name}_d",
            "labels": name in METHODS or CODERS[name].needs_labels,
            "network": name in METHODS or CODERS[name].network,
            "summary": (kind.__doc__ or "").split(".")[0],
            "source": " ".join((import_module(kind.__module__).__doc__ or "").split()),
            "recommended": {
                pull: {str(bits): recommended(kind, pull, bits) for bits in (32, 64)}
                for pull in PULLS
                if pull in getattr(kind, "recommended", {})
            },
        }
        for name, kind in kinds.items()
    ]


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values; write nested names (``options``, ``guidance``) with a dot."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{own}", inner) for own, inner in value.items())
        else:
            yield name, value


def print_methods() -> None:
    """Print the methods, and the settings of the recipe "tuned"."""
    table = Table("--method", "--pull surrogate", "labels", "what it does", "source")
    said_of = "searched for by the mAP of held-out rows, with the same budget for each method (docs/methods.md)"
    tuned = Table("--method", "default settings, 32 bits", "64 bits", caption=said_of)
    for row in method_rows():
        labels = "needed" if row["labels"] else "not used"
        table.add_row(row["name"], row["surrogate"] or "–", labels, row["summary"], row["source"])
        for pull, lengths in row["recommended"].items():
            said = [", ".join(f"{name} {value}" for name, value in _flat(own)) for own in lengths.values()]
            name = row["name"] + {"surrogate": "_d", "bits": " --pull bits"}.get(pull, "")
            tuned.add_row(name, said[0], "the same" if said[1] == said[0] else said[1])
    Console().print(table, tuned)
