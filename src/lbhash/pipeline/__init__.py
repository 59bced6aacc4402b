"""Files in, files out: training, embedding, encoding, evaluation and search, as the commands have them."""
