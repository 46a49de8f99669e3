"""The state of pages: their records, kept in SQLite or Redis."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.state.address import (
        StateArguments as StateArguments,
        StateSettings as StateSettings,
        open_state as open_state,
        open_store as open_store,
    )
    from hacs_crawler.state.copying import (
        COPYING as COPYING,
        TWINS as TWINS,
        copy_states as copy_states,
        finish_copy as finish_copy,
        refuse_filled as refuse_filled,
    )
    from hacs_crawler.state.database import (
        PAGES_A_CALL as PAGES_A_CALL,
        Restored as Restored,
        State as State,
    )
    from hacs_crawler.state.digests import digest_number as digest_number
    from hacs_crawler.state.estimation import (
        Estimation as Estimation,
        baselines_of as baselines_of,
        histories as histories,
    )
    from hacs_crawler.state.findings import (
        FIRST as FIRST,
        GONE as GONE,
        Finding as Finding,
        Findings as Findings,
        all_findings as all_findings,
        findings_text as findings_text,
        read_findings as read_findings,
        write_findings as write_findings,
    )
    from hacs_crawler.state.future import (
        SetAside as SetAside,
        as_of as as_of,
        without_future as without_future,
    )
    from hacs_crawler.state.jsonl import (
        LONGEST_LINE_BYTES as LONGEST_LINE_BYTES,
        is_export as is_export,
        page_lines as page_lines,
        read_export as read_export,
    )
    from hacs_crawler.state.judging import (
        CHURN_SECONDS as CHURN_SECONDS,
        FEWEST_GONE as FEWEST_GONE,
        FEWEST_LINKS as FEWEST_LINKS,
        FEWEST_MARKS as FEWEST_MARKS,
        MOST_AWAY as MOST_AWAY,
    )
    from hacs_crawler.state.location import describe as describe, sqlite_path as sqlite_path
    from hacs_crawler.state.outcome_jsonl import (
        merge_outcomes as merge_outcomes,
        outcome_lines as outcome_lines,
        read_outcomes as read_outcomes,
    )
    from hacs_crawler.state.outcome_log import (
        MOST_OUTCOMES as MOST_OUTCOMES,
        OUTCOME as OUTCOME,
        SEEN as SEEN,
        UPDATED as UPDATED,
        Label as Label,
        Outcomes as Outcomes,
        Prediction as Prediction,
        chance_of_new_links as chance_of_new_links,
        churn_of as churn_of,
        share_of_time as share_of_time,
        sorted_outcomes as sorted_outcomes,
        visits_of as visits_of,
        withdrawn as withdrawn,
    )
    from hacs_crawler.state.page import (
        Counted as Counted,
        Harvest as Harvest,
        News as News,
        Page as Page,
        Updates as Updates,
        Visit as Visit,
    )
    from hacs_crawler.state.priors import PRIOR_NOTES as PRIOR_NOTES
    from hacs_crawler.state.recorded import (
        Recorded as Recorded,
        lost_at as lost_at,
        merged as merged,
        on_their_sites as on_their_sites,
        outcome_record as outcome_record,
    )
    from hacs_crawler.state.reestimation import (
        Run as Run,
        advanced as advanced,
        follow_prior as follow_prior,
        new_run as new_run,
        stopped_run as stopped_run,
    )
    from hacs_crawler.state.rows import ROW as ROW
    from hacs_crawler.state.rule_changes import is_of_items as is_of_items, noun_of as noun_of
    from hacs_crawler.state.shards import (
        MOST_SHARDS as MOST_SHARDS,
        Shard as Shard,
        shard_of_page as shard_of_page,
        shards_of as shards_of,
    )
    from hacs_crawler.state.signal_records import (
        VISITS_OF_A_RATE as VISITS_OF_A_RATE,
        Records as Records,
        rates_of as rates_of,
        records_in_days as records_in_days,
        settled as settled,
    )
    from hacs_crawler.state.signals import (
        Others as Others,
        read_known_signals as read_known_signals,
        record_signals as record_signals,
        refit_signals as refit_signals,
        signal_kinds as signal_kinds,
        source_id as source_id,
        source_kind as source_kind,
        trusted_sources as trusted_sources,
    )
    from hacs_crawler.state.site_links import (
        LinkClaim as LinkClaim,
        claim_links as claim_links,
        elsewhere as elsewhere,
    )
    from hacs_crawler.state.spells import OPEN as OPEN, Spells as Spells
    from hacs_crawler.state.sqlite import MemoryStore as MemoryStore
    from hacs_crawler.state.sqlite_file import SQLiteFile as SQLiteFile
    from hacs_crawler.state.store import (
        SCHEMA as SCHEMA,
        Annotation as Annotation,
        Ids as Ids,
        Rows as Rows,
        Store as Store,
        change_annotations as change_annotations,
        change_note as change_note,
        read_note as read_note,
    )
    from hacs_crawler.state.volatile_parts import (
        forget_volatile_parts as forget_volatile_parts,
        learn_volatile_parts as learn_volatile_parts,
        read_volatile_parts as read_volatile_parts,
    )

__getattr__ = face(__name__, __file__)
