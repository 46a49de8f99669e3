"""A setting of the user's that has no effect beside the others is named once, with the reason."""

import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.crawl.idle_settings import warn_of_idle
from hacs_crawler.ranking.policies import POLICIES

BUDGET = "no effect without HACS_BUDGET"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", ""),
        ("CONTROLS=0", ""),
        ("CONTROLS=.1", f"HACS_CONTROLS = '.1' has {BUDGET}"),
        ("CONTROLS=.1 BUDGET=9", ""),
        ("CONTROLS=.1 BUDGET=9 WATCH=items", "HACS_WATCH = 'items'"),
        ("CONTROLS=.1 ESTIMATOR=mle", f"{BUDGET} and with HACS_ESTIMATOR = 'mle'"),
        ("DISCOVER=.1 PAGES=all", BUDGET),
        ("DISCOVER=.1 BUDGET=9", "with HACS_PAGES = 'start' and without HACS_REVISIT"),
        ("DISCOVER=.1 BUDGET=9 REVISIT=5", ""),
        *(
            (
                f"{given} BUDGET=9 POLICY={policy}",
                f"HACS_POLICY = '{policy}'" * (policy not in read),
            )
            for given, read in (
                ("STALE_DAYS=9", "hacs hacs-without-signals math.fsum"),
                ('WEIGHTS={"a":3}', "hacs hacs-without-signals math.fsum balanced interest"),
                ("CONTROLS=.1", "hacs hacs-without-signals math.fsum balanced interest"),
                ("THRESHOLD=.5", " ".join(["math.fsum", *POLICIES]).replace("brute-force", "")),
            )
            for policy in (*POLICIES, "math.fsum")
        ),
        ("FADE_DAYS=9 ESTIMATOR=bayes", ""),
        ("FADE_DAYS=9 ESTIMATOR=cho", "HACS_ESTIMATOR = 'cho'"),
        ("SIBLINGS=1 ELAPSED_FROM=update", "HACS_ELAPSED_FROM = 'update'"),
        ("LINKS_DENY=a WATCH=publications", ""),
        *(
            (f"LINKS{each} WATCH=css:p", "'css:p'")
            for each in ("=same-site", "_ALLOW=a", "_DENY=a")
        ),
    ],
)
def test_a_setting_without_effect_is_named_with_the_reason(
    given: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(dict(f"HACS_{pair}".split("=") for pair in given.split()))
    warn_of_idle(settings, Config.from_settings(settings))
    assert len(caplog.messages) == bool(said)
    assert said in "".join(caplog.messages)
