"""Rankings by Hamming distance, stored as a few histograms for each query."""

from lbhash.evaluation.ranking.histogram import CHUNK, RankHistogram, Ranking, Relevance, check_lengths, distance_counts
from lbhash.evaluation.ranking.stable import stable_rankings

__all__ = ["CHUNK", "RankHistogram", "Ranking", "Relevance", "check_lengths", "distance_counts", "stable_rankings"]
