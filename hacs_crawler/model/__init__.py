"""The mathematics of recrawling: change rates from visits, and update probabilities from rates."""

from hacs_crawler.model.bayes import bayes, bayes_quantiles
from hacs_crawler.model.churn import (
    CHURNING,
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
from hacs_crawler.model.localized import LOCALIZED, expected_up_to
from hacs_crawler.model.lognormal import lognormal_cumulative, lognormal_density
from hacs_crawler.model.power_law import (
    PowerLaw,
    cho_law,
    corrected_weibull_law,
    duane_law,
    matloff_law,
    naive_law,
    weibull_law,
)
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
from hacs_crawler.model.trend import chance_of_update, is_trend, unpacked_trend
from hacs_crawler.model.windows import (
    MIN_POINTS,
    THRESHOLD_DAYS,
    Kind,
    Windows,
    consistent_windows,
    update_points,
)

__all__ = [
    "BEST_DAYS",
    "CHURNING",
    "CHURNING_PAGES",
    "CLASSES",
    "CONCENTRATION",
    "DEFAULT_PRIOR",
    "ESTIMATORS",
    "LOCALIZED",
    "MIN_PAGES_TO_FIT",
    "MIN_POINTS",
    "PAPER_SHARE",
    "STEADY",
    "TEMPORAL",
    "THRESHOLD_DAYS",
    "UNKNOWN",
    "UNSTABLE",
    "USUAL_TOGETHERNESS",
    "Classes",
    "Curves",
    "Estimator",
    "Fate",
    "Fates",
    "Gaps",
    "Kind",
    "LogNormalPrior",
    "Places",
    "PowerLaw",
    "Rates",
    "Shape",
    "Sightings",
    "Togetherness",
    "Visits",
    "Windows",
    "bayes",
    "bayes_quantiles",
    "best_places",
    "chance_of_update",
    "cho",
    "cho_law",
    "classify",
    "classify_by_curve",
    "confirmed_share",
    "consistent_windows",
    "corrected_weibull_law",
    "duane_law",
    "elapsed_days",
    "estimate",
    "estimate_with_churn",
    "expected_up_to",
    "expected_views",
    "fit_anchored",
    "fit_churning_pages",
    "fit_paper",
    "fit_prior",
    "fit_togetherness",
    "gaps_between",
    "interpolated_gaps",
    "is_trend",
    "lognormal_cumulative",
    "lognormal_density",
    "matloff_law",
    "mle",
    "naive",
    "naive_law",
    "predictive_probability",
    "rise_of",
    "score_places",
    "shape_of",
    "sibling_evidence",
    "unpacked_trend",
    "update_points",
    "update_probability",
    "weibull_law",
]
