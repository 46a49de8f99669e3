"""The mathematics of recrawling: change rates from visits, and update probabilities from rates."""

from hacs_crawler.model.bayes import bayes, bayes_quantiles
from hacs_crawler.model.churn import CHURNING_PAGES, Fate, Fates, Rates, fit_churning_pages
from hacs_crawler.model.estimators import (
    ESTIMATORS,
    Estimator,
    Visits,
    cho,
    estimate,
    estimate_with_churn,
    mle,
    naive,
)
from hacs_crawler.model.gaps import Gaps, gaps_between, interpolated_gaps
from hacs_crawler.model.interest_anchored import expected_views, fit_anchored
from hacs_crawler.model.interest_classes import (
    BEST_DAYS,
    CLASSES,
    CONCENTRATION,
    PAPER_SHARE,
    STEADY,
    TEMPORAL,
    UNKNOWN,
    UNSTABLE,
    Classes,
    Shape,
    classify,
    classify_by_curve,
    shape_of,
)
from hacs_crawler.model.interest_curves import Curves, rise_of
from hacs_crawler.model.interest_paper import fit_paper
from hacs_crawler.model.interest_places import Places, best_places, score_places
from hacs_crawler.model.lognormal import lognormal_cumulative, lognormal_density
from hacs_crawler.model.predictive import predictive_probability
from hacs_crawler.model.prior import DEFAULT_PRIOR, MIN_PAGES_TO_FIT, LogNormalPrior, fit_prior
from hacs_crawler.model.probability import elapsed_days, update_probability
from hacs_crawler.model.siblings import (
    USUAL_TOGETHERNESS,
    Sightings,
    Togetherness,
    sibling_evidence,
)
from hacs_crawler.model.togetherness import fit_togetherness

__all__ = [
    "BEST_DAYS",
    "CHURNING_PAGES",
    "CLASSES",
    "CONCENTRATION",
    "DEFAULT_PRIOR",
    "ESTIMATORS",
    "MIN_PAGES_TO_FIT",
    "PAPER_SHARE",
    "STEADY",
    "TEMPORAL",
    "UNKNOWN",
    "UNSTABLE",
    "USUAL_TOGETHERNESS",
    "Classes",
    "Curves",
    "Estimator",
    "Fate",
    "Fates",
    "Gaps",
    "LogNormalPrior",
    "Places",
    "Rates",
    "Shape",
    "Sightings",
    "Togetherness",
    "Visits",
    "bayes",
    "bayes_quantiles",
    "best_places",
    "cho",
    "classify",
    "classify_by_curve",
    "elapsed_days",
    "estimate",
    "estimate_with_churn",
    "expected_views",
    "fit_anchored",
    "fit_churning_pages",
    "fit_paper",
    "fit_prior",
    "fit_togetherness",
    "gaps_between",
    "interpolated_gaps",
    "lognormal_cumulative",
    "lognormal_density",
    "mle",
    "naive",
    "predictive_probability",
    "rise_of",
    "score_places",
    "shape_of",
    "sibling_evidence",
    "update_probability",
]
