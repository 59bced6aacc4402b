"""The command line. Each command imports its modules when it runs, so ``--help`` is fast."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from lbhash.cli.commands.compare import compare
from lbhash.cli.commands.encode import encode
from lbhash.cli.commands.evaluate import evaluate
from lbhash.cli.commands.export import export
from lbhash.cli.commands.index import index_app
from lbhash.cli.commands.info import info
from lbhash.cli.commands.options import Json, choice, print_json
from lbhash.cli.commands.prepare import prepare
from lbhash.cli.commands.reproduce import reproduce
from lbhash.cli.commands.search import search
from lbhash.cli.commands.serve import serve
from lbhash.cli.commands.train import train
from lbhash.cli.commands.tune import tune
from lbhash.cli.panels import RESEARCH
from lbhash.cli.rules import App, words_of
from lbhash.cli.usage import usage_line
from lbhash.utils.memory import shortage
from lbhash.utils.system import TRAINING
from lbhash.utils.terminal import guard_streams

_KILLED = re.compile("process pool was terminated abruptly|DataLoader worker")
"""Of concurrent.futures and of PyTorch."""


class Commands(TyperGroup):
    """The commands in the order of work.

    Ctrl-C ends a command with a one-line message; Typer alone would only exit with status 130.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands; Typer would list the group ``index`` last."""
        names = [name for name in super().list_commands(ctx) if name != "index"]
        names.insert(names.index("search"), "index")
        return names

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            typer.echo(f"lbhash: {str(error) or 'interrupted'}", err=True)
            raise


app = App(
    name="lbhash",
    cls=Commands,
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
        Literal["characters", "digits"], choice("40 printed characters, or 10 handwritten digits.")
    ] = "characters",
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    epochs: Annotated[int, typer.Option(metavar="<int>", min=1, help="Epochs of each training.")] = 30,
) -> None:
    """Train, encode, evaluate and search on included images, and write a report."""
    from lbhash.cli.demo import run_demo

    run_demo(out, data, seed=seed, epochs=epochs)


for command in (compare, train, tune, encode, evaluate):
    app.command()(command)
app.add_typer(index_app)
for command in (search, serve, info, export):
    app.command()(command)


@app.command(rich_help_panel=RESEARCH)
def centers(
    classes: Annotated[int, typer.Option(help="Number of classes.")],
    bits: Annotated[int, typer.Option(help="Length of a code.")],
    kind: Annotated[
        str, typer.Option(help="best, best-ratio, or one construction: docs/centers.md lists them.")
    ] = "best",
    seed: Annotated[int, typer.Option(help="Seed of what is random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the centers to this .npy file: int8, classes x bits, of ±1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make class centers that are far apart, and print how far."""
    from lbhash.centers import design_centers
    from lbhash.codes.io import check_suffix

    if out is not None:
        check_suffix(out, suffixes=(".npy",))
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
    """List the methods: hosts, trained with settings, and coders, which have none."""
    from lbhash.cli.tables import method_rows, print_methods

    if as_json:
        print_json({"methods": method_rows()})
    else:
        print_methods()


for command in (prepare, reproduce):
    app.command(rich_help_panel=RESEARCH)(command)


def main() -> None:
    """Run the program; a user's error becomes one line and exit status 2."""
    guard_streams()
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
    usage = getattr(error, "format_message", None)  # Typer's errors in arguments have it
    if usage is not None:
        return usage_line(usage(), error.__cause__, words_of(getattr(error, "ctx", None)))
    if isinstance(error, ModuleNotFoundError) and (missing := str(error.name).partition(".")[0]) in TRAINING:
        return f"this needs the package {missing}: pip install 'lbhash[train]'"
    if isinstance(error, (ValueError, TypeError)):
        return " ".join(str(error).split())
    if (line := shortage(error)) is not None:
        return line
    if isinstance(error, RuntimeError) and _KILLED.search(str(error)):
        return "a process of this command was killed, perhaps because memory ran out; run the command again"
    if isinstance(error, OSError) and error.strerror:
        # What a command writes to a file has the file's name, and what it prints has none.
        name = error.filename or ("standard output" if error.errno == errno.ENOSPC else None)
        return error.strerror if name is None else f"{error.strerror}: {name}"
    return None
