"""The mathematics of recrawling: change rates from visits, and update probabilities from rates."""

from hacs_crawler.model.bayes import bayes, bayes_quantiles
from hacs_crawler.model.churn import (
    CHURNING_PAGES,
    Fate,
    Fates,
    Rates,
    confirmed_share,
    fit_churning_pages,
)
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
    "CHURNING_PAGES",
    "DEFAULT_PRIOR",
    "ESTIMATORS",
    "MIN_PAGES_TO_FIT",
    "USUAL_TOGETHERNESS",
    "Estimator",
    "Fate",
    "Fates",
    "Gaps",
    "LogNormalPrior",
    "Rates",
    "Sightings",
    "Togetherness",
    "Visits",
    "bayes",
    "bayes_quantiles",
    "cho",
    "confirmed_share",
    "elapsed_days",
    "estimate",
    "estimate_with_churn",
    "fit_churning_pages",
    "fit_prior",
    "fit_togetherness",
    "gaps_between",
    "interpolated_gaps",
    "mle",
    "naive",
    "predictive_probability",
    "sibling_evidence",
    "update_probability",
]
