"""LangChain's vector store and MTEB's encoder."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lbhash.codes import hamming_distances, pack, unpack
from lbhash.index import FlatIndex, open_index

DIM = 12


def numbers(text: str) -> list[float]:
    """An embedding of a text: its first letter's class, and a little of the rest."""
    rng = np.random.default_rng(ord(text[0]))
    return (rng.normal(size=DIM) + 0.1 * np.random.default_rng(list(text.encode())).normal(size=DIM)).tolist()


class Projection:
    """What a wrapper calls of a trained hasher, with random directions for its model."""

    bits = 12
    model_ = SimpleNamespace(fingerprint=lambda: "random")

    def encode(self, embeddings):
        return pack(embeddings @ np.random.default_rng(0).normal(size=(embeddings.shape[1], self.bits)))


@pytest.fixture(scope="module")
def hasher():
    return Projection()


@pytest.fixture
def store(hasher):
    pytest.importorskip("langchain_core")
    from langchain_core.embeddings import Embeddings

    from lbhash.pipeline.langchain import HashVectorStore

    class Numbers(Embeddings):
        def embed_documents(self, texts):
            return [numbers(text) for text in texts]

        def embed_query(self, text):
            return numbers(text)

    texts = [f"{letter}{row}" for letter in "abc" for row in range(9)]
    facts = [{"row": row, "tags": ["x"]} for row in range(27)]
    return HashVectorStore.from_texts(texts, Numbers(), facts, ids=[f"id {t}" for t in texts], hasher=hasher)


def test_the_nearest_documents(store, hasher):
    found = store.similarity_search_with_score("b4", 5)
    texts = [f"{letter}{row}" for letter in "abc" for row in range(9)]
    codes = hasher.encode(np.array([numbers(text) for text in texts], np.float32))
    distances = hamming_distances(hasher.encode(np.array([numbers("b4")], np.float32)), codes)[0]
    assert [distance for _, distance in found] == sorted(distances.tolist())[:5]
    for document, distance in found:
        at = texts.index(document.page_content)
        assert (document.id, document.metadata) == (f"id {texts[at]}", {"row": at, "tags": ["x"]})
        assert distances[at] == distance
    assert store.similarity_search("b4", 5) == [document for document, _ in found]
    scored = store.similarity_search_with_relevance_scores("b4", 5)
    assert [score for _, score in scored] == [1 - distance / 12 for _, distance in found]
    assert len(store.similarity_search("b4", 100)) == 27
    assert len(store.as_retriever(search_kwargs={"k": 3}).invoke("c1")) == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'filter'"):  # and not dropped in silence
        store.as_retriever(search_kwargs={"k": 3, "filter": {"row": 1}}).invoke("c1")


def test_documents_are_replaced_and_removed(store):
    assert store.add_texts(["c99"], ids=["id a0"]) == ["id a0"]
    (document,) = store.get_by_ids(["id a0", "unknown"])
    assert (document.page_content, document.metadata, len(store.index)) == ("c99", {}, 27)
    new = store.add_texts(["a1", "a1"])
    assert len({*new}) == 2
    store.delete([*new, "unknown"])
    assert len(store.index) == 27
    store.delete()
    assert (store.similarity_search("a1"), store.add_texts([])) == ([], [])
    with pytest.raises(ValueError, match=r"^ids and metadatas must have one value for each text, and the ids"):
        store.add_texts(["a", "b"], ids=["1", "1"])


def test_an_index_in_a_folder(store, hasher, tmp_path):
    store.index.save(tmp_path / "index")
    again = type(store)(store.embeddings, hasher, open_index(tmp_path / "index"))
    assert again.similarity_search("a3", 4) == store.similarity_search("a3", 4)
    again.delete(["id a3"])
    assert open_index(tmp_path / "index").info()["codes"] == 26
    other = FlatIndex(12)
    other.add(pack(np.ones((1, 12))))
    with pytest.raises(ValueError, match="index has codes without documents"):
        type(store)(store.embeddings, hasher, other)


@pytest.mark.slow  # MTEB takes ten seconds to import
def test_a_retrieval_task_of_mteb(hasher):
    """Its scores are minus the distances, and its main score that of a ranking by them."""
    mteb = pytest.importorskip("mteb")
    from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask
    from mteb.models import EncoderProtocol, ModelMeta

    from lbhash.pipeline.mteb import HashEncoder

    class Letters:
        mteb_model_meta = ModelMeta.create_empty({"name": "tests/letters", "revision": "1"})

        def encode(self, inputs, **kwargs):
            return np.array([numbers(text) for batch in inputs for text in batch["text"]], np.float32)

    encoder = HashEncoder(Letters(), hasher)
    assert isinstance(encoder, EncoderProtocol)
    assert encoder.mteb_model_meta.name == "tests/letters-12-bits"
    task = MockRetrievalTask()
    (result,) = mteb.evaluate(encoder, task, cache=None, show_progress_bar=False).task_results
    assert 0 <= result.get_score() <= 1
    codes = pack(np.random.default_rng(1).normal(size=(5, 12)))
    signs = unpack(codes, 12).astype(np.float32)
    distances = hamming_distances(codes, codes)
    np.testing.assert_array_equal(-encoder.similarity(signs, signs).numpy(), distances)
    np.testing.assert_array_equal(
        -encoder.similarity_pairwise(signs, signs[::-1].copy()).numpy(), distances[range(5), range(4, -1, -1)]
    )
