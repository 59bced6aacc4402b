"""The class probabilities of a logistic regression, by the class centers: a baseline that is in no paper."""

from __future__ import annotations

from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.models.posterior import ClassPosterior
from lbhash.training.class_posterior import HELD_OUT, choose, class_posterior
from lbhash.training.coders.base import Coder


class Logistic(Coder):
    """Logistic regression; its class probabilities weight the class centers.

    b = sign(Σ_c p(c | x) · center of c + s · u(x)), with the dither u of ``lbhash.models.posterior``. The penalty and s
    are chosen on a held-out fifth of the rows.
    """

    settings = Coder.settings | {"centers"}

    def fit(self, rows: EmbeddingSplit) -> ClassPosterior:
        """Return the class posterior."""
        assert self.centers is not None
        fitted, held_out = hold_out(rows, HELD_OUT, purpose="method 'logistic'")
        return class_posterior(rows, self.centers, choose(fitted, held_out, None, self.centers))
