"""Sentences with labels, as embeddings: text through the same commands as images. ``docs/text.md`` shows the way.

    python examples/text.py --out text.parquet

The sentences are the first ones of the docstrings of packages that lbhash depends on, or that come with those; the
label is the package. Their embeddings are TF-IDF of words and pairs of words, reduced by a truncated SVD (latent
semantic analysis): no network, no model to download.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.utils.parquet import write_parquet

PACKAGES = (
    "huggingface_hub",
    "matplotlib",
    "networkx.algorithms",
    "pandas.core",
    "scipy.optimize",
    "scipy.signal",
    "scipy.stats",
    "sympy.combinatorics",
    "sympy.geometry",
    "sympy.physics",
    "torch.distributed",
    "torch.nn",
)
"""The classes: packages and sub-packages of which each has some hundred sentences."""

TELLTALE = re.compile(
    r"\b(hugging ?face(_hub)?|hub|matplotlib|mpl|networkx|nx|numpy|np|pandas|pd|(py)?torch|scikit|scipy|sklearn|sympy)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Names that give the label away; a sentence with one of them is left out."""

WORDS = (5, 40)
"""The least and the most words of a sentence."""


class Sentence(NamedTuple):
    """The first sentence of a docstring, and what it describes."""

    text: str
    name: str


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the .parquet to write")
    parser.add_argument("--per-class", type=int, default=150, help="sentences of each package")
    parser.add_argument("--dim", type=int, default=128, help="numbers of an embedding")
    parser.add_argument("--seed", type=int, default=0, help="of the draw of sentences and queries")
    given = parser.parse_args()
    try:
        table = make_table(given.per_class, given.dim, given.seed)
        write_parquet(given.out, table)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    queries = np.count_nonzero(table["in_query"])
    print(f"{len(table):,} sentences of {len(PACKAGES)} packages, {queries:,} of them queries, are in {given.out}")


def make_table(per_class: int, dim: int, seed: int) -> pa.Table:
    """The sentences with their embeddings, labels and splits; the versions of the packages are in its metadata.

    Args:
        per_class: sentences of each package, of which a fifth are queries.
        dim: numbers of an embedding.
        seed: of the draw.
    """
    if per_class < 10:
        raise ValueError(f"per-class is {per_class}; it must be at least 10")
    rng = np.random.default_rng(seed)
    found = {package: sentences(package) for package in PACKAGES}
    common = Counter(sentence.text.lower() for of_one in found.values() for sentence in of_one)
    rows: list[tuple[Sentence, int, bool]] = []
    for label, (package, of_one) in enumerate(found.items()):
        own = [sentence for sentence in of_one if common[sentence.text.lower()] == 1]
        if len(own) < per_class:
            raise ValueError(f"per-class is {per_class}; {package} has {len(own)} sentences of its own")
        drawn = rng.permutation(len(own))[:per_class]
        rows += [(own[place], label, rank < per_class // 5) for rank, place in enumerate(drawn)]
    order = rng.permutation(len(rows))
    rows = [rows[place] for place in order]
    texts = [sentence.text for sentence, _, _ in rows]
    in_query = np.array([query for _, _, query in rows])
    numbers = embed(texts, ~in_query, dim, seed)
    ends = np.arange(0, numbers.size + 1, dim, dtype=np.int32)
    columns = {
        "embedding": pa.ListArray.from_arrays(pa.array(ends), pa.array(numbers.ravel())),
        "label": pa.array([label for _, label, _ in rows], pa.int64()),
        "text": pa.array(texts),
        "name": pa.array([sentence.name for sentence, _, _ in rows]),
        "package": pa.array([PACKAGES[label] for _, label, _ in rows]),
        "in_train": pa.array(~in_query),
        "in_base": pa.array(~in_query),
        "in_query": pa.array(in_query),
    }
    facts = {"packages": PACKAGES, "versions": _versions(), "seed": seed}
    return pa.table(columns).replace_schema_metadata({"source": json.dumps(facts)})


def embed(texts: list[str], fitted: npt.NDArray[np.bool_], dim: int, seed: int) -> npt.NDArray[np.float32]:
    """TF-IDF of words and pairs of words, reduced to ``dim`` numbers and unit length: ``float32 [n, dim]``.

    Args:
        texts: n sentences.
        fitted: those that vocabulary, weights and directions are taken from, ``bool [n]``; queries are none of them.
        dim: numbers of an embedding.
        seed: of the SVD.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    known = words.fit_transform([text for text, fit in zip(texts, fitted, strict=True) if fit])
    most = min(known.shape) - 1
    if not 1 <= dim <= most:
        raise ValueError(f"dim is {dim}; it must be from 1 to {most} with so many sentences and words")
    reduced = TruncatedSVD(dim, random_state=seed).fit(known).transform(words.transform(texts))
    return normalize(reduced).astype(np.float32)


def sentences(package: str) -> list[Sentence]:
    """First sentences of the docstrings of a package's public functions, classes and methods, each sentence once.

    The source is read and not run, so that nothing is imported.
    """
    root = _folder(package)
    found: dict[str, Sentence] = {}
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root).with_suffix("").parts
        if any(part.startswith("test") or part in ("tests", "conftest") for part in inside):
            continue
        module = ".".join((package, *(part for part in inside if part != "__init__")))
        for name, doc in _docstrings(ast.parse(file.read_text(encoding="utf-8")), module):
            text = first_sentence(doc)
            if text is not None and not TELLTALE.search(text):
                found.setdefault(text.lower(), Sentence(text, name))
    return list(found.values())


def first_sentence(doc: str) -> str | None:
    """The first sentence of a docstring without its markup; ``None`` where it begins with no whole one."""
    paragraph = inspect.cleandoc(doc).split("\n\n")[0]
    plain = re.sub(r":[\w:]+:`~?([^`]*)`", r"\1", " ".join(paragraph.split()))  # roles, such as :class:`Name`
    plain = re.sub(r"\*+(\w[^*]*)\*+", r"\1", plain.replace("`", ""))  # code and emphasis
    match = re.match(r".+?[a-z)\]]\.(?=\s|$)", plain)
    if match is None or not WORDS[0] <= len(match[0].split()) <= WORDS[1]:
        return None
    return match[0]


def _docstrings(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str]]:
    """Names and docstrings of what is public in a module or class."""
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and not inner.name.startswith("_"):
            name = f"{prefix}.{inner.name}"
            doc = ast.get_docstring(inner)
            if doc:
                yield name, doc
            if isinstance(inner, ast.ClassDef):
                yield from _docstrings(inner, name)


def _folder(package: str) -> Path:
    """Where the source of a package lies."""
    root, *inner = package.split(".")
    found = find_spec(root)
    if found is None or found.origin is None or not (folder := Path(found.origin).parent.joinpath(*inner)).is_dir():
        raise ValueError(f"the package {package} is not installed; lbhash's own dependencies bring it")
    return folder


def _versions() -> dict[str, str]:
    """Of the packages that the sentences are of."""
    versions = {}
    for root in sorted({package.split(".")[0] for package in PACKAGES}):
        try:
            versions[root] = version(root)
        except PackageNotFoundError:
            versions[root] = "unknown"
    return versions


if __name__ == "__main__":
    main()
