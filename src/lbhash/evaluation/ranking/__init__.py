"""Rankings by Hamming distance, kept as what they are: a few histograms a query."""

from lbhash.evaluation.ranking.histogram import CHUNK, RankHistogram, Ranking, Relevance, check_lengths, distance_counts
from lbhash.evaluation.ranking.stable import stable_rankings

__all__ = [
    "CHUNK",
    "RankHistogram",
    "Ranking",
    "Relevance",
    "check_lengths",
    "distance_counts",
    "stable_rankings",
]
