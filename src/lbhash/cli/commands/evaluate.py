"""``lbhash evaluate``: evaluate codes, or methods on classes that are new after training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import Json, RayAddress, choice, data_option, integers, print_json, several
from lbhash.cli.panels import MACHINE

_NEIGHBORS: dict[str, Any] = {"rich_help_panel": "Neighbors, of codes without labels"}
_UNSEEN: dict[str, Any] = {"rich_help_panel": "Methods, on classes that they never saw"}


def evaluate(
    queries: Annotated[Path | None, typer.Option(help="Codes with labels: .parquet, .npz, .npy or a folder.")] = None,
    base: Annotated[Path | None, typer.Option(help="Codes with labels: .parquet, .npz, .npy or a folder.")] = None,
    query_labels: Annotated[Path | None, typer.Option(help="The queries' labels: an .npy, or a table.")] = None,
    base_labels: Annotated[Path | None, typer.Option(help="The base's labels: an .npy, or a table.")] = None,
    bits: Annotated[int | None, typer.Option(help="Length of a code: for files without it, and --protocol.")] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", help="Evaluate mAP, NDCG, ACG and WAP @k; without it, over the whole base."),
    ] = None,
    rank: Annotated[list[str] | None, several("K of precision, recall and F1 at K, such as 1,10,100.")] = None,
    radius: Annotated[int, typer.Option(help="Hamming radius of precision and recall.")] = 2,
    k: Annotated[int | None, typer.Option("-k", help="How many codes vote in recognition; 100 by default.")] = None,
    ties: Annotated[
        Literal["expected", "stable"],
        choice("Rank tied codes in random order (the expectation), or in the order of the base (stable)."),
    ] = "expected",
    normalize: Annotated[
        Literal["retrieved", "all"],
        choice("Divide average precision by the relevant codes retrieved, or by all."),
    ] = "retrieved",
    empty: Annotated[
        Literal["skip", "zero"],
        choice("Queries without a relevant code: leave them out, or score them 0."),
    ] = "skip",
    probe: Annotated[bool, typer.Option("--probe", help="Fit a linear probe to single-label codes too.")] = False,
    curves: Annotated[Path | None, typer.Option(help="Folder for the curves as images and CSV files.")] = None,
    engine: Annotated[
        Literal["local", "ray"] | None,
        choice("Count in this process, or parts of the base on a Ray cluster.", rich_help_panel=MACHINE),
    ] = None,
    ray_address: RayAddress = None,
    neighbors: Annotated[
        list[Path] | None,
        typer.Option(
            help="For codes without labels, a file of their embeddings: measure how many of the --rank nearest "
            "neighbors by cosine the codes keep. Give it twice if queries and base have a file each.",
            **_NEIGHBORS,
        ),
    ] = None,
    rerank: Annotated[
        list[str] | None,
        several("Numbers of nearest codes to rank again by cosine, such as 50,100,200.", **_NEIGHBORS),
    ] = None,
    protocol: Annotated[
        Literal["unseen"] | None,
        choice("Evaluate methods, not codes: train them on some classes of --data, and test them on all.", **_UNSEEN),
    ] = None,
    data: Annotated[str | None, data_option("Embeddings with labels, as 'lbhash train' takes them.", **_UNSEEN)] = None,
    method: Annotated[
        list[str] | None,
        several("Methods to train, such as csq,itq; by default that of 'lbhash train', and itq.", **_UNSEEN),
    ] = None,
    draws: Annotated[int, typer.Option(help="How often to draw classes and train the methods.", **_UNSEEN)] = 3,
    share: Annotated[float, typer.Option(help="The share of the classes to leave out of training.", **_UNSEEN)] = 0.5,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each training.", **_UNSEEN)] = None,
    head: Annotated[str | None, typer.Option(help="As for 'lbhash train'.", **_UNSEEN)] = None,
    unseen: Annotated[float | None, typer.Option(help="As for 'lbhash train'.", **_UNSEEN)] = None,
    as_json: Json = False,
) -> None:
    """Evaluate codes: mAP with its range over ties, precision, recall, recognition."""
    from lbhash.cli import tables

    if protocol:
        from lbhash.pipeline.unseen import evaluate_unseen_files

        assert data is not None
        reports = evaluate_unseen_files(
            data,
            method or (),
            bits=bits,
            epochs=epochs,
            head=head,
            unseen=unseen,
            draws=draws,
            share=share,
            top_k=top_k,
        )
        if as_json:
            print_json({"methods": [report.as_dict() for report in reports]})
        else:
            tables.print_unseen(reports)
        return
    assert queries is not None
    assert base is not None
    ranks = integers(rank, "rank", "1,10,100") if rank else None
    if neighbors:
        from lbhash.pipeline.evaluate import evaluate_file_neighbors

        counts = integers(rerank or (), "rerank", "50,100,200")
        found = evaluate_file_neighbors(queries, base, neighbors, k=ranks, bits=bits, rerank=counts)
        if as_json:
            print_json(found.as_dict())
        else:
            tables.print_neighbor_report(found)
        return
    from lbhash.pipeline.evaluate import evaluate_files

    report = evaluate_files(
        queries,
        base,
        query_labels=query_labels,
        base_labels=base_labels,
        bits=bits,
        top_k=top_k,
        ranks=ranks,
        radius=radius,
        k=k,
        ties=ties,
        normalize=normalize,
        empty=empty,
        probe=probe,
        engine=engine,
        ray_address=ray_address,
    )
    if curves is not None:
        from lbhash.evaluation.plots import write_curves

        write_curves(report, curves)
    if as_json:
        print_json(report.as_dict())
        return
    tables.print_report(report)
    if curves is not None:
        typer.echo(f"curves are in {curves}")
