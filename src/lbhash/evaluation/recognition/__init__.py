"""Recognition: predicting the class of a code."""

from lbhash.evaluation.recognition.linear import (
    classifier_accuracy,
    classifier_predict,
    linear_probe_accuracy,
    linear_probe_predict,
)
from lbhash.evaluation.recognition.vote import knn_accuracy, knn_predict, predict_from_counts

__all__ = ["classifier_accuracy", "classifier_predict", "knn_accuracy", "knn_predict"]
__all__ += ["linear_probe_accuracy", "linear_probe_predict", "predict_from_counts"]
