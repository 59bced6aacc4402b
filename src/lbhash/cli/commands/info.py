"""``lbhash info``: describe a model, an index or codes."""

from __future__ import annotations

from typing import Annotated

import typer

from lbhash.cli.commands.options import Json, print_json


def info(
    path: Annotated[str, typer.Argument(help="A model, an index (a folder, or milvus+URL), or codes.")],
    as_json: Json = False,
) -> None:
    """Print the facts of a model, an index or a file of codes."""
    from lbhash.cli.tables import print_facts
    from lbhash.pipeline.info import info as run

    facts = run(path)
    if as_json:
        print_json(facts)
    else:
        print_facts(facts)
