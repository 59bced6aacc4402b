"""A vector store of LangChain over an index of codes; ``pip install 'lbhash[langchain]'``."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from lbhash.index import FlatIndex


class HashVectorStore(VectorStore):
    """Documents found by the Hamming distance of their codes, which a trained hasher makes of an embedding.

    Args:
        embedding: LangChain's embedding, of the kind that the hasher was trained on.
        hasher: a trained ``Hasher``.
        index: where the codes and documents are, for example of ``open_index``; if None, a new one in memory.
    """

    embeddings: Any = None

    def __init__(self, embedding: Any, hasher: Any, index: Any = None) -> None:
        self.embeddings, self.hasher = embedding, hasher
        self.index = FlatIndex(hasher.bits, model=hasher.model_.fingerprint()) if index is None else index
        rows = self.index.attributes_of(self.index.ids()).to_pylist()
        if rows and not {"key", "text", "metadata"} <= rows[0].keys():
            raise ValueError(
                "index has codes without documents; give an empty one, or one that a HashVectorStore filled"
            )
        self._ids = {row["key"]: row["id"] for row in rows}

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, metadatas: Any = None, *, ids: Any = None, **kwargs: Any) -> Any:
        """Return a store of these texts; ``hasher``, and maybe ``index``, are further arguments."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(self, texts: Any, metadatas: Any = None, *, ids: Any = None) -> list[str]:  # type: ignore[override]
        """Add texts, in the place of those with the same ids, and return the ids."""
        if not (texts := list(texts)):
            return []
        keys = [key or str(uuid.uuid4()) for key in ids or [None] * len(texts)]
        facts = [json.dumps(one) for one in metadatas or [{}] * len(texts)]
        if not len({*keys}) == len(facts) == len(texts):
            raise ValueError("ids and metadatas must have one value for each text, and the ids must differ")
        codes = self.hasher.encode(np.asarray(self.embeddings.embed_documents(texts), np.float32))
        names = self.index.state.new_ids(None, len(texts))
        self.index.add(codes, names, {"key": keys, "text": texts, "metadata": facts})
        self.delete(keys)
        self._ids.update(zip(keys, names.tolist(), strict=True))
        return keys

    def delete(self, ids: list[str] | None = None) -> bool:  # type: ignore[override]
        """Remove the documents with these ids, or all of them."""
        keys = [key for key in dict.fromkeys(self._ids if ids is None else ids) if key in self._ids]
        if keys:
            self.index.remove([self._ids.pop(key) for key in keys])
        return True

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        """Return the documents that have these ids."""
        rows = self.index.attributes_of([self._ids[key] for key in ids if key in self._ids]).to_pylist()
        return [Document(id=row["key"], page_content=row["text"], metadata=json.loads(row["metadata"])) for row in rows]

    def similarity_search(self, query: str, k: int = 4) -> list[Document]:  # type: ignore[override]
        """Return the k documents nearest to a text."""
        return [document for document, _ in self.similarity_search_with_score(query, k)]

    def similarity_search_with_score(self, query: str, k: int = 4) -> list[tuple[Document, int]]:  # type: ignore[override]
        """Return the k documents nearest to a text, each with its distance in bits."""
        code = self.hasher.encode(np.asarray([self.embeddings.embed_query(query)], np.float32))
        found = self.index.search(code, k)
        keys = self.index.attributes_of(found.ids[0])["key"].to_pylist()
        return list(zip(self.get_by_ids(keys), found.distances[0].tolist(), strict=True))

    def _select_relevance_score_fn(self) -> Any:
        return lambda distance: 1 - distance / self.hasher.bits
