"""What is known of each page, kept in SQLite or Redis."""

from hacs_crawler.state.address import (
    check_state,
    describe,
    is_server,
    open_state,
    open_store,
    split_replicas,
    sqlite_path,
)
from hacs_crawler.state.codec import ROW, decode_page
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.digests import digest_number
from hacs_crawler.state.estimation import Estimation, baselines_of, fates, histories
from hacs_crawler.state.future import Future, as_of, without_future
from hacs_crawler.state.jsonl import (
    LONGEST_LINE_BYTES,
    ExportError,
    is_export,
    read_export,
    to_line,
)
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.outcome_jsonl import (
    OutcomeMerger,
    export_outcomes,
    is_outcomes,
    read_outcomes,
)
from hacs_crawler.state.outcome_log import (
    SEEN,
    UPDATED,
    Label,
    Outcomes,
    Prediction,
    chance_of_new_links,
    check_prediction,
    churn_of,
    has_new_links,
    is_new_to_site,
    predictions,
    share_of_time,
    sorted_outcomes,
    time_share,
)
from hacs_crawler.state.page import UPDATES, Harvest, News, Page, Updates, Visit, copy_of
from hacs_crawler.state.recorded import Recorded, merged, on_their_sites
from hacs_crawler.state.reestimation import Run, advanced, follow_prior, new_run, stopped_run
from hacs_crawler.state.site_links import LinkClaim, claimed_of
from hacs_crawler.state.store import SCHEMA, Annotation, Ids, Rows, Store
from hacs_crawler.state.varying import forget_varying, learn_varying, read_varying

__all__ = [
    "LONGEST_LINE_BYTES",
    "PAGES_A_CALL",
    "ROW",
    "SCHEMA",
    "SEEN",
    "UPDATED",
    "UPDATES",
    "Annotation",
    "Estimation",
    "ExportError",
    "Future",
    "Harvest",
    "Ids",
    "Label",
    "LinkClaim",
    "MemoryStore",
    "News",
    "OutcomeMerger",
    "Outcomes",
    "Page",
    "Prediction",
    "Recorded",
    "Rows",
    "Run",
    "State",
    "Store",
    "Updates",
    "Visit",
    "advanced",
    "as_of",
    "baselines_of",
    "chance_of_new_links",
    "check_prediction",
    "check_state",
    "churn_of",
    "claimed_of",
    "copy_of",
    "decode_page",
    "describe",
    "digest_number",
    "export_outcomes",
    "fates",
    "follow_prior",
    "forget_varying",
    "has_new_links",
    "histories",
    "is_export",
    "is_new_to_site",
    "is_outcomes",
    "is_server",
    "learn_varying",
    "merged",
    "new_run",
    "on_their_sites",
    "open_state",
    "open_store",
    "predictions",
    "read_export",
    "read_outcomes",
    "read_varying",
    "share_of_time",
    "sorted_outcomes",
    "split_replicas",
    "sqlite_path",
    "stopped_run",
    "time_share",
    "to_line",
    "without_future",
]
