"""The experiments, one file a table or figure; nothing in the library needs them."""
