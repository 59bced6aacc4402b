"""How good codes are: the report, the bound, rankings, metrics and recognition; no PyTorch."""
