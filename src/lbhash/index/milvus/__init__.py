"""The same interface over a collection of Milvus."""
