"""Evaluation of codes: the report, the bound, rankings, metrics and recognition; none needs PyTorch."""
