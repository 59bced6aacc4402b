"""What MkDocs builds besides the pages of this folder: files of the root, notebooks, commands and HTTP routes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the site that lie outside of docs/, by their path in the repository."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    pages = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in OUTSIDE.items()}
    pages["index.md"] = f"---\nhide: [navigation]\n---\n\n{pages['index.md']}"
    pages |= {"cli.md": commands(), "routes.md": routes()}
    for book in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        pages[f"notebooks/{book.stem}.md"] = notebook(book)
    for page, content in pages.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links between files of the repository lead to pages of the site, and turn formulas into MathML."""
    here = page.file.src_uri
    source = next((file for file, name in OUTSIDE.items() if name == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = normpath(join(source, "..", target))
        to = OUTSIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if to is None:  # a file of the sources, which is no page; a missing one is left to the check of links
            return text if (ROOT / path).exists() else found[0]
        if to.endswith(".ipynb") and Path(to).stem != Path(here).stem:
            to = to.removesuffix("ipynb") + "md"
        return f"[{text}]({relpath(to, normpath(join(here, '..')))}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    for place in range(0, len(parts), 2):  # the odd ones are code
        text = re.sub(r"\[((?:[^\[\]`]|`[^`]*`)*)\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)", link, parts[place])
        parts[place] = re.sub(r"^\$\$(.+?)\$\$$", formula, text, flags=re.MULTILINE | re.DOTALL)
    return "".join(parts)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads anything from another site."""
    if found := re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)=\"(https?:)?//[^>]*>", output):
        raise PluginError(f"{page.file.src_uri} loads {found[0]} from another site")
    return output


def on_post_build(config: Any) -> None:
    """Write a page for each address that fell away, which leads on."""


def formula(found: re.Match[str]) -> str:
    """Return MathML, which browsers draw without a script."""
    return f'<div class="formula">{convert(found[1], display="block")}</div>'


def notebook(path: Path) -> str:
    """Return a notebook as a page, without outputs, as it is stored."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, *rest = (
        source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for cell in cells
        for source in ["".join(cell["source"])]
    )
    note = f"This page is a notebook: [{path.name}]({path.name}). Run it to see what its cells print."
    return "\n\n".join([title, note, *rest]) + "\n"


def commands() -> str:
    """Return a page of all commands and their options, as Typer describes them."""
    import typer
    from typer.cli import get_docs_for_click

    from lbhash.cli.app import app

    command = typer.main.get_command(app)
    page = get_docs_for_click(obj=command, ctx=typer.Context(command), name="lbhash", title="Commands")
    page = re.sub(r"^\*\*Commands\*\*:\n\n(\* .*\n)+", "", page, flags=re.MULTILINE)  # cut short, and headings below
    return re.sub(r"^\* `--help`: .*\n", "", page, flags=re.MULTILINE)


def routes() -> str:
    """Return a page of the HTTP routes, from the OpenAPI description of the service."""
    from fastapi import FastAPI

    from lbhash.service.app import VERSION
    from lbhash.service.routes import probes, router, writes
    from lbhash.service.schemas import REFUSALS
    from lbhash.utils.version import __version__

    app = FastAPI(title="lbhash", version=__version__)
    app.include_router(probes)
    for part in (router, writes):
        app.include_router(part, prefix=f"/{VERSION}")
    described = app.openapi()
    schemas = described["components"]["schemas"]
    lines = ["# HTTP routes", "How to use them: [Ask the service](http.md)."]
    used: set[str] = set()
    for path, operations in described["paths"].items():
        for verb, operation in operations.items():
            lines += [f"## {verb.upper()} {path}", operation.get("description", "")]
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                lines += [f"Takes `{kind}`:", fields(body["schema"], used)]
            if given := operation.get("parameters"):
                lines += [fields({"properties": {one["name"]: one["schema"] for one in given}}, used)]
            answers = operation["responses"]["200"].get("content", {})
            lines += ["Answers: " + ", ".join(answer(kind, one, used) for kind, one in answers.items()) + "."]
    lines += ["## Refusals", 'A refusal has a status and one line, `{"detail": "…"}`.']
    refused = [f"| {status} | {why} |" for status, why in REFUSALS.items()]
    lines += ["\n".join(["| status | why |", "|--:|:--|", *refused])]
    lines += ["## Objects of the answers"]
    done: set[str] = set()
    while left := sorted(used - done):
        for name in left:
            lines += [f"### {name}", schemas[name].get("description", ""), fields(schemas[name], used)]
        done |= set(left)
    return "\n\n".join(lines) + "\n"


def answer(kind: str, content: dict[str, Any], used: set[str]) -> str:
    """Return what a route answers: an object of the page, or a media type."""
    return kind_of(content.get("schema", {}), used) if kind == "application/json" else f"`{kind}`"


def fields(schema: dict[str, Any], used: set[str]) -> str:
    """Return a table of the fields of an object, and of the objects in its lists."""
    return "\n".join(["| field | type | what it is |", "|:--|:--|:--|", *rows_of(schema, used, "")])


def rows_of(schema: dict[str, Any], used: set[str], place: str) -> list[str]:
    """Return the rows of such a table."""
    rows = []
    for name, field in schema.get("properties", {}).items():
        told = " ".join(field.get("description", "").split())
        needed = ", required" if name in schema.get("required", ()) else ""
        rows.append(f"| `{place}{name}` | {kind_of(field, used)}{needed} | {told} |".replace("|  |", "| |"))
        rows += rows_of(field.get("items", {}), used, f"{place}{name}[].")
    return rows


def kind_of(field: dict[str, Any], used: set[str]) -> str:
    """Return the type of a field in words; objects of the answers are links."""
    if name := field.get("$ref", "").rpartition("/")[2]:
        used.add(name)
        return f"[{name}](#{name.lower()})"
    if options := field.get("anyOf"):
        return " or ".join(dict.fromkeys(kind_of(one, used) for one in options))
    if field.get("type") == "array":
        return f"list of {kind_of(field.get('items', {}), used)}"
    if values := field.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    return {"null": "null", None: "any"}.get(field.get("type"), field.get("type"))
