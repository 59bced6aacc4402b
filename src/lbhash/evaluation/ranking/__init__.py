"""Rankings by Hamming distance or any other score, stored as a few histograms for each query."""

from lbhash.evaluation.ranking.histogram import (
    CHUNK,
    RankHistogram,
    Ranking,
    check_lengths,
    distance_counts,
    ranking_of,
)
from lbhash.evaluation.ranking.stable import stable_rankings

__all__ = ["CHUNK", "RankHistogram", "Ranking", "check_lengths", "distance_counts", "ranking_of", "stable_rankings"]
