"""The command line. Every command imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lbhash.cli.commands.encode import encode
from lbhash.cli.commands.export import export
from lbhash.cli.commands.index import index_app
from lbhash.cli.commands.options import Json, print_json
from lbhash.cli.commands.reproduce import reproduce
from lbhash.cli.commands.search import search
from lbhash.cli.commands.serve import serve
from lbhash.cli.commands.train import train
from lbhash.cli.commands.tune import tune
from lbhash.utils.memory import shortage

app = typer.Typer(
    name="lbhash",
    help="Learn short binary codes for images or embeddings, tell how good they are, and search them.",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Print the version or the help."""
    if version:
        from lbhash.utils.version import __version__

        typer.echo(f"lbhash {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the model and the index.")] = Path("demo"),
    data: Annotated[
        Literal["characters", "digits"], typer.Option(help="100 printed characters, or 10 handwritten digits.")
    ] = "characters",
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 30,
) -> None:
    """Train, encode, evaluate and search on pictures that come with it, and write a report."""
    from lbhash.cli.demo import run_demo

    run_demo(out, data, seed=seed, epochs=epochs)


app.command()(train)
app.command()(encode)


@app.command()
def evaluate(
    queries: Annotated[Path | None, typer.Option(help="Codes with labels: .parquet, .npz, .npy or a folder.")] = None,
    base: Annotated[Path | None, typer.Option(help="Codes with labels: .parquet, .npz, .npy or a folder.")] = None,
    deephash: Annotated[
        Path | None,
        typer.Option(help="A folder with the four .npy files of DeepHash-pytorch, in place of queries and base."),
    ] = None,
    query_labels: Annotated[Path | None, typer.Option(help="An .npy with the queries' labels.")] = None,
    base_labels: Annotated[Path | None, typer.Option(help="An .npy with the base's labels.")] = None,
    bits: Annotated[int | None, typer.Option(help="Length of a code, for files that do not say.")] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", "--at", help="Evaluate mAP, NDCG, ACG and WAP @k; without it, over the whole base."),
    ] = None,
    rank: Annotated[
        list[int] | None, typer.Option(help="A K of precision, recall and F1 at K; may be given several times.")
    ] = None,
    radius: Annotated[int, typer.Option(help="Hamming radius of precision and recall.")] = 2,
    k: Annotated[int | None, typer.Option("-k", help="How many codes vote in recognition; 100 by default.")] = None,
    ties: Annotated[
        Literal["expected", "stable"],
        typer.Option(help="Rank tied codes in random order (the expectation), or in the order of the base (stable)."),
    ] = "expected",
    normalize: Annotated[
        Literal["retrieved", "all"],
        typer.Option(help="Divide average precision by the relevant codes retrieved, or by all."),
    ] = "retrieved",
    empty: Annotated[
        Literal["skip", "zero"],
        typer.Option(help="Queries without a relevant code: leave them out, or score them 0."),
    ] = "skip",
    probe: Annotated[bool, typer.Option("--probe", help="Fit a linear probe to single-label codes too.")] = False,
    curves: Annotated[Path | None, typer.Option(help="Folder for the curves as images and CSV files.")] = None,
    run: Annotated[Path | None, typer.Option(help="A run of TREC, with --qrels in the place of codes.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="The qrels of --run.")] = None,
    write_run: Annotated[Path | None, typer.Option(help="Write the rankings as a run, of --top-k or 1,000.")] = None,
    write_qrels: Annotated[Path | None, typer.Option(help="Write what is relevant to each query as qrels.")] = None,
    neighbors: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of the embeddings that were encoded, for codes without labels: evaluate what they keep of "
            "the nearest neighbors by cosine, --rank of them. Twice, for queries and base from a file each."
        ),
    ] = None,
    protocol: Annotated[
        Literal["unseen"] | None,
        typer.Option(help="Evaluate methods and no codes: train them on half of the classes of --data, ask about all."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Embeddings with labels, as 'lbhash train' takes them.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method of --protocol; may be given several times. csq_d and itq by default."),
    ] = None,
    draws: Annotated[int, typer.Option(help="How often --protocol draws classes and trains anew.")] = 3,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each training of --protocol.")] = None,
    as_json: Json = False,
) -> None:
    """Evaluate codes: mAP with its range over ties, precision, recall, recognition and the bound."""
    from lbhash.pipeline.evaluate import evaluate_file_neighbors, evaluate_files

    if (protocol is None) != (data is None):
        raise ValueError("protocol and data go together: methods are trained on data, and codes take neither")
    if data is not None:
        from lbhash.cli.tables import print_unseen
        from lbhash.pipeline.unseen import evaluate_unseen_files

        files = {"queries": queries, "base": base, "deephash": deephash, "neighbors": neighbors, "run": run}
        for name, given_file in files.items():
            if given_file:
                raise ValueError(f"{name} is given with protocol, which trains and encodes data; leave one of them out")
        reports = evaluate_unseen_files(data, method or (), bits=bits, epochs=epochs, draws=draws, top_k=top_k)
        if as_json:
            print_json({"methods": [report.as_dict() for report in reports]})
        else:
            print_unseen(reports)
        return
    if run is not None or qrels is not None:
        given = (queries, base, deephash, query_labels, base_labels, bits, k, curves, write_run, write_qrels)
        if any(value is not None for value in given) or probe or radius != 2 or ties != "expected":
            raise ValueError("run and qrels are given, and so is an option of codes; give one or the other")
        from lbhash.cli.tables import print_run
        from lbhash.pipeline.runs import evaluate_run

        facts = evaluate_run(run, qrels, top_k=top_k, ranks=rank, normalize=normalize, empty=empty)
        (print_json if as_json else print_run)(facts)
        return
    if neighbors:
        labeled = {"deephash": deephash, "query-labels": query_labels, "base-labels": base_labels, "top-k": top_k}
        labeled |= {"curves": curves, "probe": probe or None, "k": k}
        for name, value in labeled.items():
            if value is not None:
                raise ValueError(f"{name} is given with neighbors, which take no labels; leave one of the two out")
        found = evaluate_file_neighbors(queries, base, neighbors, k=rank or None, bits=bits)
        if as_json:
            print_json(found.as_dict())
            return
        from lbhash.cli.tables import print_neighbor_report

        print_neighbor_report(found)
        return
    report = evaluate_files(
        queries,
        base,
        deephash=deephash,
        query_labels=query_labels,
        base_labels=base_labels,
        bits=bits,
        top_k=top_k,
        ranks=rank or None,
        radius=radius,
        k=k,
        ties=ties,
        normalize=normalize,
        empty=empty,
        probe=probe,
        write_run=write_run,
        write_qrels=write_qrels,
    )
    if curves is not None:
        from lbhash.evaluation.plots import write_curves

        write_curves({"": report}, curves)
    if as_json:
        print_json(report.as_dict())
        return
    from lbhash.cli.tables import print_report

    print_report(report)
    if curves is not None:
        typer.echo(f"curves are in {curves}")


app.command()(search)
app.add_typer(index_app)
app.command()(export)


@app.command()
def centers(
    bits: Annotated[int, typer.Option(help="Length of a code.")],
    classes: Annotated[int | None, typer.Option(help="Number of classes; not needed with --data.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A file of embeddings with labels, whose classes are counted.")
    ] = None,
    kind: Annotated[str, typer.Option(help="best, or one of the constructions that --compare lists.")] = "best",
    seed: Annotated[int, typer.Option(help="Seed of what is random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the centers to this .npy file: int8, classes x bits, of ±1.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compare all constructions and all upper bounds.")] = False,
    as_json: Json = False,
) -> None:
    """Make class centers that are far apart, and print their distances, the upper bounds and the construction."""
    from lbhash.centers import compare_centers, design_centers
    from lbhash.pipeline.splits import count_classes

    classes = count_classes(classes, data)
    if compare:
        if out is not None:
            raise ValueError(f"out is {str(out)!r}; --compare writes no centers, leave one of the two out")
        compared = compare_centers(classes, bits, seed)
        if as_json:
            print_json(compared)
            return
        from lbhash.cli.tables import print_compared_centers

        print_compared_centers(compared)
        return
    if out is not None and out.suffix != ".npy":
        raise ValueError(f"out is {str(out)!r}; it must end in .npy")
    design = design_centers(classes, bits, kind=kind, seed=seed)
    if out is not None:
        import numpy as np

        from lbhash.utils.files import replacing

        with replacing(out) as temporary:
            np.save(temporary, design.centers)
    facts = design.as_dict()
    if as_json:
        print_json(facts)
        return
    from lbhash.cli.tables import print_centers

    print_centers(facts)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods: hosts, whose training has settings, and coders, which fit a small model by themselves."""
    from lbhash.cli.tables import method_rows, print_methods

    if as_json:
        print_json({"methods": method_rows()})
    else:
        print_methods()


app.command()(tune)
app.command()(reproduce)
app.command()(serve)


def main() -> None:
    """Run the program; a user's error becomes one line and exit status 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        line = _line_for(error)
        if line is None or os.environ.get("LBHASH_TRACEBACK"):
            raise
        sys.stderr.write(f"lbhash: error: {line}\n")
        sys.exit(2)


def _line_for(error: Exception) -> str | None:
    """Return the line for a user's error, or None for a bug of ours."""
    usage = getattr(error, "format_message", None)  # of Typer's errors in the arguments
    if usage is not None:
        return " ".join(usage().split())
    if isinstance(error, (ValueError, TypeError)):
        return " ".join(str(error).split())
    if (line := shortage(error)) is not None:
        return line
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return None
