"""``lbhash serve``: run the service and its page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lbhash.cli.commands.options import Model, MovedBackbone, MovedEncoder, data_option, several


def serve(
    index: Annotated[str, typer.Argument(help="An index that 'lbhash index build' wrote, or milvus+URL.")],
    model: Model,
    data: Annotated[
        str | None, data_option("'digits', 'characters' or a file with the rows, their images and the queries.")
    ] = None,
    backbone: MovedBackbone = None,
    encoder: MovedEncoder = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="<int>", min=0, max=65535, help="The port; 0 for any free port.")] = 8000,
    no_token: Annotated[bool, typer.Option("--no-token", help="Allow other machines to read without a token.")] = False,
    allow_host: Annotated[
        list[str] | None,
        several("Other names of the service besides localhost; '*' for any."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="How many requests are computed at once. If not given, the number of processors."),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let requests add codes to the index and remove them.")
    ] = False,
    json_log: Annotated[
        bool, typer.Option("--json-log", help="Write the log as JSON lines, one for each request.")
    ] = False,
    ssl_certfile: Annotated[Path | None, typer.Option(help="A certificate (PEM), to serve by HTTPS.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="The certificate's key, if it is in another file.")] = None,
) -> None:
    """Search over HTTP, with a web page.

    Requests need the tokens in LBHASH_READ_TOKEN and LBHASH_WRITE_TOKEN, if these are set.
    """
    from lbhash.service.server import allowed_hosts, check_access, run
    from lbhash.service.settings import Settings

    read_token = os.environ.get("LBHASH_READ_TOKEN")
    settings = Settings(
        model=model,
        index=index,
        data=data,
        backbone=encoder if backbone is None else backbone,
        read_token=read_token,
        write_token=os.environ.get("LBHASH_WRITE_TOKEN"),
        hosts=allowed_hosts(host, read_token is not None, allow_host or []),
        concurrency=concurrency,
        writable=writable,
    )
    check_access(host, settings, no_token)
    run(
        settings,
        host,
        port,
        lambda line: typer.echo(line, err=True),
        json_log=json_log,
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
    )
