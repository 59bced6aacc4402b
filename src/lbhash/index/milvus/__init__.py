"""An index in a collection of Milvus, with the interface of ``lbhash.index.Index``."""
