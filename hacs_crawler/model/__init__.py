"""The mathematics of recrawling: change rates from visits, and update probabilities from rates."""

from hacs_crawler.model.bayes import bayes, bayes_quantiles
from hacs_crawler.model.churn import (
    CHURNING,
    CHURNING_PAGES,
    Fates,
    LinkLifetime,
    Rates,
    confirmed_share,
    fit_churning_pages,
)
from hacs_crawler.model.estimators import (
    ESTIMATORS,
    Visits,
    estimate,
    estimate_with_churn,
    mle,
)
from hacs_crawler.model.gaps import Gaps, gaps_between
from hacs_crawler.model.instant import (
    hub_rate,
    instant_index,
    tier_rate,
    update_index,
)
from hacs_crawler.model.interest_anchored import fit_anchored
from hacs_crawler.model.interest_curves import Curves
from hacs_crawler.model.interest_paper import fit_paper
from hacs_crawler.model.interest_sites import (
    interest_in_sites,
    score_sites,
)
from hacs_crawler.model.interest_temporal import (
    BEST_DAYS,
    concentration_of,
    temporal_by_curve,
    temporal_by_days,
)
from hacs_crawler.model.localized import LOCALIZED, expected_up_to
from hacs_crawler.model.lognormal import lognormal_cumulative
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
from hacs_crawler.model.prior import DEFAULT_PRIOR, LogNormalPrior, fit_prior
from hacs_crawler.model.probability import elapsed_days, update_probability
from hacs_crawler.model.siblings import (
    SHARED_UPDATES,
    SiblingCorrelation,
    SiblingVisits,
    sibling_evidence,
)
from hacs_crawler.model.signals import (
    MOST_GAPS,
    MOST_SIGNALS,
    POINTS,
    USUAL_PINGS,
    USUAL_SIGNALS,
    Beliefs,
    SignalRecords,
    Trust,
    beliefs_of,
    fit_prior_of_signals,
    gap_log_likelihood,
    log_quiet_factor,
    open_log_likelihood,
    posterior,
    trust_of,
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
    "DEFAULT_PRIOR",
    "ESTIMATORS",
    "LOCALIZED",
    "MIN_POINTS",
    "MOST_GAPS",
    "MOST_SIGNALS",
    "POINTS",
    "SHARED_UPDATES",
    "THRESHOLD_DAYS",
    "USUAL_PINGS",
    "USUAL_SIGNALS",
    "Beliefs",
    "Curves",
    "Fates",
    "Gaps",
    "Kind",
    "LinkLifetime",
    "LogNormalPrior",
    "PowerLaw",
    "Rates",
    "SiblingCorrelation",
    "SiblingVisits",
    "SignalRecords",
    "Trust",
    "Visits",
    "Windows",
    "bayes",
    "bayes_quantiles",
    "beliefs_of",
    "chance_of_update",
    "cho_law",
    "concentration_of",
    "confirmed_share",
    "consistent_windows",
    "corrected_weibull_law",
    "duane_law",
    "elapsed_days",
    "estimate",
    "estimate_with_churn",
    "expected_up_to",
    "fit_anchored",
    "fit_churning_pages",
    "fit_paper",
    "fit_prior",
    "fit_prior_of_signals",
    "fit_togetherness",
    "gap_log_likelihood",
    "gaps_between",
    "hub_rate",
    "instant_index",
    "interest_in_sites",
    "is_trend",
    "log_quiet_factor",
    "lognormal_cumulative",
    "matloff_law",
    "mle",
    "naive_law",
    "open_log_likelihood",
    "posterior",
    "predictive_probability",
    "score_sites",
    "sibling_evidence",
    "temporal_by_curve",
    "temporal_by_days",
    "tier_rate",
    "trust_of",
    "unpacked_trend",
    "update_index",
    "update_points",
    "update_probability",
    "weibull_law",
]
