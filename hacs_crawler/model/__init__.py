"""The mathematics of recrawling: change rates from visits, and update probabilities from rates."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.model.bursts import (
        DEFAULT_BURSTS as DEFAULT_BURSTS,
        Bursts as Bursts,
        fit_bursts as fit_bursts,
    )
    from hacs_crawler.model.churn import (
        CHURNING as CHURNING,
        CHURNING_PAGES as CHURNING_PAGES,
        fit_churning_pages as fit_churning_pages,
    )
    from hacs_crawler.model.estimators import (
        ESTIMATORS as ESTIMATORS,
        LOCALIZED as LOCALIZED,
        ONE_RATE as ONE_RATE,
        WITH_POSTERIOR as WITH_POSTERIOR,
        estimate as estimate,
        mle as mle,
    )
    from hacs_crawler.model.gaps import (
        Gaps as Gaps,
        LinkLifetime as LinkLifetime,
        LinkLifetimes as LinkLifetimes,
        Visits as Visits,
    )
    from hacs_crawler.model.grid import (
        DEFAULT_PRIOR as DEFAULT_PRIOR,
        LogNormalPrior as LogNormalPrior,
        bayes_quantiles as bayes_quantiles,
        fit_prior as fit_prior,
    )
    from hacs_crawler.model.localized import (
        MIN_POINTS as MIN_POINTS,
        Kind as Kind,
        Windows as Windows,
        consistent_windows as consistent_windows,
        duane_line as duane_line,
        matloff_rate as matloff_rate,
    )
    from hacs_crawler.model.siblings import (
        SHARED_UPDATES as SHARED_UPDATES,
        USUAL_SIBLING_CORRELATION as USUAL_SIBLING_CORRELATION,
        SiblingVisits as SiblingVisits,
        fit_sibling_correlation as fit_sibling_correlation,
        sibling_evidence as sibling_evidence,
    )
    from hacs_crawler.model.signals import (
        POINTS as POINTS,
        USUAL_PINGS as USUAL_PINGS,
        USUAL_SIGNALS as USUAL_SIGNALS,
        Beliefs as Beliefs,
        SignalRecords as SignalRecords,
        Trust as Trust,
        beliefs_of as beliefs_of,
        fit_prior_of_signals as fit_prior_of_signals,
        gap_log_likelihood as gap_log_likelihood,
        log_quiet_factor as log_quiet_factor,
        open_log_likelihood as open_log_likelihood,
        posterior as posterior,
        trust_of as trust_of,
    )
    from hacs_crawler.model.survival import (
        Rates as Rates,
        chance_of_update as chance_of_update,
        days_out_of_date as days_out_of_date,
        elapsed_days as elapsed_days,
        known_rates as known_rates,
        update_index as update_index,
        update_probability as update_probability,
    )

__getattr__ = face(__name__, __file__)
