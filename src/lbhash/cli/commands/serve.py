"""``lbhash serve``: the service and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lbhash.cli.commands.options import Model, choice, data_option


def _read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take a TOML file's values as the options' defaults; ``ValueError`` if one is not an option."""
    if file is not None:
        from lbhash.utils.files import read_toml
        from lbhash.utils.validation import check_choice

        names = [one.name for one in context.command.params if one.name and one.name not in ("config", "help")]
        given = {name.replace("-", "_"): value for name, value in read_toml(file, "config").items()}
        for name in given:
            check_choice(name, f"an option in {file.name}", names)
        if "token" in given:
            read_toml(file, "config", private=True)
        context.default_map = given
    return file


def serve(
    model: Model,
    index: Annotated[str, typer.Option(help="An index that 'lbhash index build' wrote, or its URL.")],
    config: Annotated[
        Path | None,
        typer.Option(
            callback=_read_config,
            is_eager=True,
            help="A TOML file with any of these options, as in port = 8000; those that are typed come first.",
        ),
    ] = None,
    data: Annotated[
        str | None, data_option("'digits', 'characters' or a file with the rows, their images and the queries.")
    ] = None,
    backbone: Annotated[
        Path | None,
        typer.Option(
            help="What embeds images or texts, a folder or Hub id; without it, what the model was trained with."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free port.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="LBHASH_TOKEN", show_envvar=True, help="What every request must bring as a bearer token."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="A TOML file of several tokens, what each allows, and how often; in the place of --token."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Allow other machines to use the service without a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name of the service besides localhost; may be given several times. '*' for any."),
    ] = None,
    max_body: Annotated[int, typer.Option(help="The largest body of a request, in bytes.")] = 16 << 20,
    max_pixels: Annotated[int, typer.Option(help="The largest image, in pixels.")] = 25_000_000,
    concurrency: Annotated[
        int | None,
        typer.Option(help="How many requests are computed at once. If not given, the number of processors."),
    ] = None,
    queue: Annotated[int, typer.Option(help="How many more requests may wait; any others get status 503.")] = 64,
    writable: Annotated[
        bool, typer.Option("--writable", help="Let requests add codes to the index and remove them.")
    ] = False,
    verify: Annotated[
        Literal["background", "before-serving"],
        choice("When the files of a large index are compared with their checksums."),
    ] = "background",
    json_log: Annotated[
        bool, typer.Option("--json-log", help="Write the log as JSON lines, with one for every request.")
    ] = False,
    ssl_certfile: Annotated[Path | None, typer.Option(help="A certificate (PEM), to serve by HTTPS.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="Its key, if it is in a file of its own.")] = None,
) -> None:
    """Search over HTTP, with a web page."""
    from lbhash.service.server import allowed_hosts, check_access, run
    from lbhash.service.settings import Settings

    protected = token is not None or tokens is not None
    check_access(host, protected, no_token, writable)
    settings = Settings(
        model=model,
        index=index,
        data=data,
        backbone=backbone,
        token=token,
        tokens=tokens,
        hosts=allowed_hosts(host, protected, allow_host or []),
        max_body=max_body,
        max_pixels=max_pixels,
        concurrency=concurrency,
        queue=queue,
        writable=writable,
        verify=verify,
    )
    run(
        settings,
        host,
        port,
        lambda line: typer.echo(line, err=True),
        json_log=json_log,
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
    )
