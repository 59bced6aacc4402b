"""Recognition: predicting the class of a code."""

from lbhash.evaluation.recognition.linear import classifier_predict, linear_probe_predict
from lbhash.evaluation.recognition.vote import knn_predict, predict_by_outputs, predict_from_counts

__all__ = ["classifier_predict", "knn_predict", "linear_probe_predict", "predict_by_outputs", "predict_from_counts"]
