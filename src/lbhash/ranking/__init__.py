"""Rankings by Hamming distance, kept as what they are: a few histograms a query."""

from lbhash.ranking.histogram import CHUNK, RankHistogram, Ranking, Relevance, check_lengths, distance_counts
from lbhash.ranking.stable import stable_rankings

__all__ = [
    "CHUNK",
    "RankHistogram",
    "Ranking",
    "Relevance",
    "check_lengths",
    "distance_counts",
    "stable_rankings",
]
