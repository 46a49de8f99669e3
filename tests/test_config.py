"""Every setting is read once, checked, and named when it is wrong."""

import math
from operator import attrgetter

import pytest
from scrapy.core.scheduler import Scheduler
from scrapy.settings import Settings

from hacs_crawler.config import Config, unknown_settings
from hacs_crawler.crawl.idle_settings import warn_of_idle
from hacs_crawler.exceptions import ConfigError
from hacs_crawler.ranking import policies


def config(**settings: object) -> Config:
    return Config.from_settings(Settings(settings))


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        *(({"HACS_THRESHOLD": x}, "ranking.threshold", 0.5) for x in (".5", " 0.5", "5e-1", 0.5)),
        *(({"HACS_RETRY_AFTER": x}, "retry_after", True) for x in (True, "True", "true", 1, "1")),
        *(
            ({"HACS_INNER_SCHEDULER": one}, "inner_scheduler", one)
            for one in ("scrapy.core.scheduler.Scheduler", Scheduler)
        ),
        ({"HACS_NAMESPACE": "2026"}, "namespace", "2026"),
        ({"HACS_REVISIT": "0"}, "revisit", None),
        ({"HACS_REVISIT": "budget", "HACS_BUDGET": "3"}, "revisit", "budget"),
        ({}, "ranking.policy.name", "hacs"),
        ({}, "estimation.estimator", "bursts"),
        ({}, "ranking.budget", None),
        ({}, "ranking.discover", None),
        ({"HACS_PAGES": "all"}, "ranking.discover", 0.2),
        ({"HACS_BUDGET": ""}, "ranking.budget", None),
        ({"HACS_BUDGET": "5"}, "ranking.budget", 5),
        ({"HACS_FADE_DAYS": "inf"}, "estimation.fade_days", math.inf),
        ({"HACS_CONDITIONAL_REQUESTS": "True"}, "conditional_requests", True),
    ],
    ids=str,
)
def test_a_value_has_a_default_and_may_be_written_in_several_ways(
    given: dict[str, object], field: str, value: object
) -> None:
    assert attrgetter(field)(config(**given)) == value


PAGES_MISSPELLED = "al", "Start", "ALL", "starts"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (f"HACS_{name}", value, allowed)
        for names, values, allowed in (
            ("STATE", [""], "non-empty"),
            ("STATE", ["mongodb://x", "sqlite://x"], "sqlite:///PATH"),
            ("NAMESPACE", ["a:b", "", '"; DROP'], "letters, digits"),
            *(("PAGES", [p], f"'{p}': must be start or all, or reg") for p in PAGES_MISSPELLED),
            ("POLICY", ["best"], "hacs, last-obs, random, brute-force"),
            ("POLICY", ["no.such.module"], "no.such.module"),
            ("POLICY", ["math.pi"], "not a function"),
            ("POLICY", [3], "dotted path"),
            ("BUDGET", [True, "1.5", 1.5], "whole number"),
            ("BUDGET", [0], "at least 1"),
            ("INNER_SCHEDULER", [""], "the dotted path of a class, or the class"),
            ("REVISIT", ["budget"], "budget with HACS_BUDGET"),
            ("REVISIT", ["some"], "a whole number of at least 0, or budget, or nothing"),
            ("ESTIMATOR", ["guess"], "bayes"),
            ("CONTROLS DISCOVER", [2, 1.5], "must be"),
            ("FINDINGS SIGNALS", [-1], "a whole number of at least 0"),
            ("RENDER", ["yes"], "must be"),
            ("SIBLINGS", ["maybe"], "must be"),
            ("STALE_DAYS FADE_DAYS", [0, "nan"], "above 0"),
            ("ELAPSED_FROM", ["birth"], "visit, update"),
            ("UPDATES", ["world"], "page, site"),
            ("WATCH", ["prices", "css:"], "links, publications, items, text, css:…"),
            ("WATCH", ["css:p[", "xpath://p[", "jmespath:["], "an expression that can be read"),
            ("WATCH", ["math.pi"], "the dotted path of a function"),
            ("WATCH_IGNORE WATCH_KEY", ["id", "seen"], "must be empty unless HACS_WATCH = "),
            ("WATCH_FIELDS", [[3]], "names of fields"),
            ("THRESHOLD", [1.1, "much"], "at most 1"),
            ("LINKS", ["some"], "all, same-site"),
            ("LINKS_ALLOW LINKS_DENY", [["("], [3]], "regular expressions"),
            ("CONDITIONAL_REQUESTS", ["perhaps"], "True or False, or auto"),
            ("FLUSH_VISITS", [""], "whole number"),
            ("INSTANT", [5], "the file that `hacs interest seeds` wrote"),
            (
                "INSTANT",
                [{"list": "x", "hour": 1}],
                "with the keys list, minutes, update_value (Obj",
            ),
            ("SHARD", ["16/16"], "HACS_SHARD = '16/16': must be INDEX/COUNT with "),
            ("METRICS", ["localhost", "localhost:99999"], "HOST:PORT"),
            ("CLOCK", ["no.such.clock"], "no.such.clock"),
            ("CLOCK", ["math.pi", "time.localtime"], "returns seconds"),
        )
        for name in names.split()
        for value in values
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    name: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: value})
    assert str(caught.value).startswith(name)
    assert allowed in str(caught.value)


def test_what_is_watched_says_what_an_update_is_unless_it_is_said() -> None:
    """With the default a state tells by itself, so that commands count as the crawls did."""

    def counted(**settings: object) -> str:
        return config(**settings).estimation.updates

    assert counted() == counted(HACS_WATCH="css:p") == "default"
    assert (
        counted(HACS_UPDATES="page") == counted(HACS_WATCH="css:p", HACS_UPDATES="page") == "page"
    )
    assert counted(HACS_WATCH="css:p", HACS_UPDATES="any-change") == "any-change"


CDX = {"cdx_url": "http://a.org/cdx", "memento_url": "http://a.org/web"}


@pytest.mark.parametrize(
    ("value", "index", "mementos", "paces"),
    [
        ("https://web.archive.org", "/cdx/search/cdx", "/web", (24, 480)),
        ("https://web.archive.org/web/", "/cdx/search/cdx", "/web", (24, 480)),
        ('{"mementos_per_minute": 5}', "/cdx/search/cdx", "/web", (24, 5)),
        ("http://a.org/coll", "http://a.org/coll/cdx", "http://a.org/coll", (24, 60)),
        ("http://a.org/coll/cdx", "http://a.org/coll/cdx", "http://a.org/coll", (24, 60)),
        (
            "http://a.org/cdx/search/cdx",
            "http://a.org/cdx/search/cdx",
            "http://a.org/web",
            (24, 60),
        ),
        ("http://localhost:80/c/", "http://localhost:80/c/cdx", "http://localhost:80/c", (0, 0)),
        ({**CDX, "cdx_per_minute": 3}, "http://a.org/cdx", "http://a.org/web", (3, 60)),
    ],
)
def test_one_archive_needs_no_name(
    value: object, index: str, mementos: str, paces: tuple[float, float]
) -> None:
    (found,) = config(HACS_ARCHIVES=value).archives
    wayback = "https://web.archive.org"
    assert found.index_url == (wayback + index if index.startswith("/") else index)
    assert found.memento_url == (wayback + mementos if mementos.startswith("/") else mementos)
    assert (found.cdx_per_minute, found.mementos_per_minute) == paces
    assert (found.name, found.pause_seconds, found.obeys_robots) == ("", 60, True)


def test_the_archive_is_the_wayback_machine_unless_another_is_named() -> None:
    assert config().archives == config(HACS_ARCHIVES="https://web.archive.org").archives


def test_archives_are_named_with_their_addresses_and_rates() -> None:
    text = """{
        "wayback": {"mementos_per_minute": 5},
        "x": {"timemap_url": "http://a.org/t/", "archive_pause_seconds": 7},
        "mine": "http://127.0.0.1:8080/coll"
    }"""
    one, two, three = config(HACS_ARCHIVES=text).archives
    assert [(one.name, one.index_url) for one in (one, two, three)] == [
        ("wayback", "https://web.archive.org/cdx/search/cdx"),
        ("x", "http://a.org/t/"),
        ("mine", "http://127.0.0.1:8080/coll/cdx"),
    ]
    assert (one.cdx_per_minute, one.mementos_per_minute) == (24, 5)
    assert (two.cdx_per_minute, two.pause_seconds, two.obeys_robots) == (24, 7, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{", "an object in JSON"),
        ("[1]", "the URL of a web archive, not '[1]'"),
        ("", "the URL of an archive, or archives by name"),
        ("web.archive.org", "the URL of a web archive, not 'web.archive.org'"),
        ("http://u:secret@a.org/", "the URL of a web archive, not 'http://a.org/'"),
        ({"a": 3}, "in 'a' a URL, or an object"),
        ({"a": {**CDX, "timemap_url": "http://a.org/"}}, "in 'a' one of cdx_url, timemap_url"),
        ({"a": {"cdx_url": "http://a.org/cdx"}}, "missing required field `memento_url`"),
        ({"a": {"collinfo_url": "http://a.org/c.json"}}, "missing required field `warc_url`"),
        ({"a": {"timemap_url": "a.org"}}, "in 'a' the URL of a web archive, not 'a.org'"),
        ({"a": {"timemap_url": "http://u:secret@a.org/"}}, "not 'http://a.org/'"),
        ({"a": {"timemap_url": "http://a.org/", "memento_url": "x"}}, "field `memento_url`"),
        ({"a": {"cdx_per_minut": 3}}, "in 'a' an object with the keys "),
        ({"a": {**CDX, "cdx_per_minute": -1}}, "as cdx_per_minute a number of at least 0"),
        ({"a": {**CDX, "cdx_per_minute": True}}, "as cdx_per_minute a number"),
        ({"a": {**CDX, "archive_pause_seconds": 1e9}}, "at most 86400, not 1000000000.0"),
        ({"a": {**CDX, "robotstxt_obey": "no"}}, "as robotstxt_obey True or False, not 'no'"),
        ({"a": CDX, "b": CDX}, "in 'b' another archive than 'a'"),
    ],
)
def test_a_wrong_archive_is_named(value: object, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(HACS_ARCHIVES=value)
    assert str(caught.value).startswith("HACS_ARCHIVES")
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_list_of_texts_may_be_given_in_json_or_with_commas() -> None:
    assert [one.pattern for one in config(HACS_PAGES="/art").pages] == ["/art"]
    found = config(HACS_PAGES='["/art", "[12]"]', HACS_WATCH="items", HACS_WATCH_IGNORE='["seen"]')
    assert [one.pattern for one in found.pages] == ["/art", "[12]"]
    assert found.watch_ignore == ("seen",)
    assert config(HACS_LINKS_DENY="[12]").link_rules.deny[0].pattern == "[12]"
    found = config(HACS_LINKS_DENY=r"/login,\.css$").link_rules.deny
    assert [rule.pattern for rule in found] == ["/login", r"\.css$"]


def test_a_setting_that_nothing_reads_is_found_with_the_one_it_looks_like() -> None:
    settings = Settings({"HACS_BUGDET": 5, "HACS_QQQQQQ": 1, "HACS_BUDGET": 5})
    assert unknown_settings(settings) == {"HACS_BUGDET": "HACS_BUDGET", "HACS_QQQQQQ": ""}


def test_a_setting_of_the_command_line_without_its_prefix_is_found() -> None:
    settings = Settings({"PAGES": 7, "HACS_BUDGET": 3})
    settings.setdict({"BUDGET": "3", "STATS": "x"}, "cmdline")
    assert unknown_settings(settings) == {"BUDGET": "HACS_BUDGET"}


def test_ones_own_policy_is_taken_by_its_path() -> None:
    found = config(HACS_POLICY="hacs_crawler.ranking.policies.last_obs").ranking.policy
    assert found.score is policies.last_obs
    assert found.name == "hacs_crawler.ranking.policies.last_obs"
    assert found.grows_with_time


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
            (f"{given} BUDGET=9 POLICY={name}", f"HACS_POLICY = '{name}'" * (name in idle.split()))
            for given, idle in (
                ("STALE_DAYS=9", "last-obs random brute-force balanced interest"),
                ('WEIGHTS={"a":3}', "last-obs random brute-force"),
                ("CONTROLS=.1", "last-obs random brute-force"),
                ("THRESHOLD=.5", "brute-force"),
            )
            for name in (*policies.POLICIES, "math.fsum")
        ),
        ("FADE_DAYS=9 ESTIMATOR=bayes", ""),
        ("FADE_DAYS=9 ESTIMATOR=cho", "HACS_ESTIMATOR = 'cho'"),
        ("SIBLINGS=1 ELAPSED_FROM=update", "HACS_ELAPSED_FROM = 'update'"),
        ("LINKS_DENY=a WATCH=publications", ""),
        *((f"LINKS{of} WATCH=css:p", "'css:p'") for of in ("=same-site", "_ALLOW=a", "_DENY=a")),
    ],
)
def test_a_setting_without_effect_is_named_with_the_reason(
    given: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(dict(f"HACS_{pair}".split("=") for pair in given.split()))
    warn_of_idle(settings, Config.from_settings(settings))
    assert len(caplog.messages) == bool(said)
    assert said in "".join(caplog.messages)
