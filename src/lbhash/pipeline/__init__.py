"""The commands' work, from files to files: training, embedding, encoding, evaluation and search."""
