"""What is known of a page is a function of its visits, in whatever order they are recorded."""

from array import array
from copy import copy
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from hacs_crawler.state import Harvest, News, Page, Updates, Visit, baselines_of, merged
from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.merging import RECENT_VISITS, SLOT_SECONDS, merge, merge_pages, thinned
from hacs_crawler.utils.times import DAY
from state_support import URL, page_after


def visit(at: int, *links: int, **facts: object) -> Visit:
    return Visit(URL, at, marks=frozenset(links), **facts)


def news(page: Page, one: Visit) -> frozenset[int]:
    new_marks = merged(page, one).new_marks
    merge(page, one)
    return new_marks


def by(rules: int, at: int, *links: int) -> Visit:
    return visit(at, *links, rules=rules)


def test_other_rules_of_links_make_the_next_visit_a_baseline() -> None:
    page = page_after(by(1, 10, 1), by(1, 20, 1, 2))
    assert news(page, by(2, 30, 3, 4)) == frozenset()
    assert (page.last_visit, page.last_update) == (30, 20)
    assert page.new_marks_by_visit() == [0, 1, 0]
    assert page.baselines.tolist() == [30]
    assert news(page, by(2, 40, 3, 4, 5)) == {5}
    assert page.last_update == 40


def test_a_visit_is_not_compared_with_another_of_the_same_second_alone() -> None:
    page = page_after(by(1, 10, 1, 2), by(1, 20, 1), updates="change")
    assert [page.known_marks(1, at) for at in (20, 30)] == [{1, 2}, {1}]


def test_a_baseline_that_is_thinned_out_leaves_the_next_visit_as_one() -> None:
    page = page_after(by(1, 10, 1), by(2, 20, 2), by(2, 30, 3))
    page.visits = array("I", [10, 30])
    assert baselines_of([page]).tolist() == [False, True]


def test_changed_content_is_an_update_though_its_links_are_unknown() -> None:
    visits = Visit(URL, 10, digest=1 << 2), Visit(URL, 20, digest=2 << 2), Visit(URL, 30)
    assert page_after(*visits).last_update == 20


def test_updates_that_were_new_to_the_site_are_those_that_are_no_echoes() -> None:
    page = page_after(visit(1, 1), visit(5, 1, 2), visit(9, 1, 2, 3))
    page.echoes = thinned([*page.echoes, 5, 5])
    assert list(page.update_times) == [5, 9]
    assert list(replace(page, updates="site").update_times) == [9]
    assert page.last_update == 9


def test_a_gone_page_waits_longer_each_time_and_is_back_with_the_next_answer() -> None:
    page = page_after(visit(DAY, 1))
    waits = []
    for day in (2, 10, 30):
        merge(page, Visit(URL, day * DAY, News.GONE))
        waits.append(page.not_before - day * DAY)
    assert waits == [7 * DAY, 14 * DAY, 28 * DAY]
    for day in (60, 70):
        merge(page, Visit(URL, day * DAY, News.FAILED))
    assert (page.failures, page.last_visit) == (2, DAY), "failures are counted, too"
    merge(page, visit(100 * DAY, 1))
    assert (page.gone, page.not_before, page.failures) == (0, 0, 0)


def test_archived_visits_do_not_undo_newer_news() -> None:
    page = page_after(visit(20, 1), Visit(URL, 30, News.GONE))
    merge(page, Visit("http://example.edu/%7Ea/", 10, marks=frozenset({1}), etag="old"))
    assert (page.gone, page.url, page.etag) == (1, URL, "")


def test_the_latest_answer_with_links_sets_the_validators_and_a_304_keeps_them() -> None:
    one, other, capture = visit(10, 1, etag='"a"'), visit(20, 1, etag='"b"'), visit(20, 1)
    assert page_after(one, other, Visit(URL, 30)).etag == '"b"'
    assert page_after(other, visit(30, 1)).etag == ""
    for order in permutations([one, other, capture]):
        assert page_after(*order).etag == '"b"', "a capture of the second of a visit leaves them"


@pytest.mark.parametrize("at", [0, -1, 2**32])
def test_a_time_outside_1970_to_2106_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match="outside 1970-2106"):
        merge(Page(URL), visit(at, 1))


def test_a_copy_shares_nothing_with_its_page() -> None:
    page = page_after(visit(10, 1))
    merge(copy(page), visit(20, 2))
    assert page == page_after(visit(10, 1))


def test_old_visits_are_thinned_to_the_last_in_each_slot() -> None:
    times = [SLOT_SECONDS + day * DAY for day in range(400)]
    page = page_after(*(visit(at, 1) for at in times))
    old = list(page.visits)[:-RECENT_VISITS]
    assert list(page.visits)[-RECENT_VISITS:] == times[-RECENT_VISITS:]
    assert len(old) == len({at // SLOT_SECONDS for at in old})
    assert set(old) <= set(times)


def sourced(one: Visit) -> Visit:
    """Give a visit the number of its links' source: of some links there are several, or none."""
    links = sum(1 << link for link in one.marks or ())
    body, form = one.at % 5, one.at % 3
    return replace(one, hrefs=form and links and body << 32 | links << 2 | form)


visits = st.lists(
    st.builds(
        Visit,
        url=st.just(URL),
        at=st.integers(1, 40),
        marks=st.none() | st.frozensets(st.integers(1, 8), max_size=5),
        digest=st.integers(0, 7),
        repeats=st.booleans(),
    ).map(sourced),
    max_size=12,
    unique_by=lambda one: one.at,
)


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([0, 1, 3])), unique_by=lambda one: one[0]
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_recording_does_not_matter_where_visits_go_by_different_rules(
    history: list[tuple[int, int]], random: object
) -> None:
    taken = [by(rules, at, at % 5, 100 * rules + at % 7) for at, rules in sorted(history)]
    shuffled = taken[:]
    random.shuffle(shuffled)
    page = page_after(*taken)
    assert encode_page(page_after(*shuffled)) == encode_page(page)
    assert encode_page(page_after(*taken, *taken)) == encode_page(page)
    changes = [at for (_, before), (at, rules) in pairwise(sorted(history)) if rules != before]
    assert page.baselines.tolist() == changes
    assert not {*page.update_times} & {*changes}


def parts_of(history: list[Visit], sides: list[int]) -> list[list[Visit]]:
    """The visits on one side, on the other (0 and 1), or on both (2)."""
    pairs = list(zip(history, sides, strict=False))
    return [[one for one, side in pairs if side in {number, 2}] for number in (0, 1)]


sides = st.lists(st.integers(0, 2), min_size=12, max_size=12)


rules = st.sampled_from([0, 1, 2])
ruled = st.lists(
    st.builds(
        Visit,
        url=st.just(URL),
        at=st.integers(1, 9),
        news=st.sampled_from([News.SEEN, News.SEEN, News.SEEN, *News]),
        marks=st.none() | st.frozensets(st.integers(1, 4), max_size=3),
        rules=rules,
        repeats=st.booleans(),
    ).map(
        lambda one: sourced(replace(one, digest=one.at % 3))
    ),  # an archive has one answer a second
    max_size=5,
)


@given(ruled)
def test_links_are_those_of_the_source_that_the_page_names(history: list[Visit]) -> None:
    page = page_after(*history)
    shown = {one.marks for one in history if one.hrefs == page.hrefs and one.news is News.SEEN}
    assert not page.hrefs or page.spells.shown_last() in shown


@pytest.mark.parametrize(
    ("visits", "source"),
    [
        ([visit(3, 1, hrefs=7), visit(3, 1, hrefs=7)], 7),
        ([visit(3, 1, hrefs=7), visit(3, 1, 2, hrefs=8)], 0),
        ([visit(1, 1, 2, hrefs=7), visit(2, hrefs=0), visit(3, 1, hrefs=8)], 8),
        ([visit(1, 1, hrefs=7), visit(2, 5)], 0),
    ],
    ids=["one", "two in one second", "of the last links", "of other marks than links"],
)
def test_the_source_is_that_of_the_last_links(visits: list[Visit], source: int) -> None:
    assert page_after(*visits).hrefs == page_after(*visits[::-1]).hrefs == source


def bytes_of(page: Page) -> bytes:
    """The page's bytes without what attempts told that saw nothing: that follows the latest news."""
    return encode_page(replace(page, gone=0, failures=0, not_before=0))


@given(ruled, sides)
def test_neither_the_order_of_visits_matters_nor_which_of_them_two_pages_had(
    history: list[Visit], sides: list[int]
) -> None:
    whole = page_after(*history)
    assert {bytes_of(page_after(*order)) for order in permutations(history)} == {bytes_of(whole)}
    one, other = (page_after(*part) for part in parts_of(history, sides))
    for both in (merge_pages(one, other), merge_pages(other, one), merge_pages(whole, one)):
        assert bytes_of(both) == bytes_of(whole)


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.integers(1, 3000), rules, st.booleans()),
        unique_by=lambda one: one[0],
        min_size=150,
        max_size=260,
    ),
    st.integers(2, 60),
)
def test_no_order_matters_where_visits_are_thinned(
    history: list[tuple[int, int, bool]], days: int
) -> None:
    taken = [
        replace(
            by(rules, day * DAY, day // days, day % 4),
            digest=day % 5,
            repeats=day % 3 == 0,
            **({} if shows else {"marks": None}),
        )
        for day, rules, shows in history
    ]
    in_order = sorted(taken, key=lambda one: one.at)
    page = page_after(*in_order)
    assert bytes_of(page_after(*taken)) == bytes_of(page)
    assert bytes_of(page_after(*reversed(in_order))) == bytes_of(page)
    parts = page_after(*taken[::2]), page_after(*taken[1::2], *taken[:60])
    assert bytes_of(merge_pages(*parts)) == bytes_of(page)


@settings(max_examples=10)
@given(
    st.lists(st.integers(1, 3000), unique=True, min_size=150, max_size=260),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_what_other_pages_say_of_visits_is_thinned_with_them(
    days: list[int], echo_each: int, unread_each: int
) -> None:
    times = [day * DAY for day in days]
    echoes, unread = times[::echo_each], times[1::unread_each]
    visits = page_after(*(by(1, at, at) for at in times), is_in_site=True)
    notes = joined(
        *(Page(URL, echoes=[at]) for at in echoes), Page(URL, unread=unread, is_in_site=True)
    )
    some = page_after(*(by(1, at, at) for at in times[::7]))
    merged = joined(visits, notes, some)
    assert encode_page(joined(some, notes, visits)) == encode_page(merged)
    assert encode_page(merge_pages(visits, merge_pages(notes, some))) == encode_page(merged)
    assert {*merged.visits} & {*echoes} <= {*merged.echoes}
    assert {*merged.visits} & {*unread} <= {*merged.unread}
    assert merged.is_in_site
    assert len(merged.echoes) <= RECENT_VISITS + 3000 // 30 + 1


def test_rules_take_no_room_but_where_they_change_or_links_were_not_shown() -> None:
    page = page_after(*(by(1, 100 + at, at) for at in range(9)))
    assert page.rule_changes == {100: 1}
    for at in range(200, 2_000):
        merge(page, Visit(URL, at))
    assert page.rule_changes == {108: 1, page.visits[1]: 0}


def test_of_each_archive_the_page_remembers_the_latest_capture_recorded() -> None:
    marks = [Harvest(1, 20, 7), Harvest(1, 10, 8), Harvest(2, 5, 9)]
    page = page_after(*(visit(mark.until + 30, 1, harvest=mark) for mark in marks))
    assert (page.last_visit, page.harvests) == (50, {1: Harvest(1, 20, 7), 2: Harvest(2, 5, 9)})


def joined(*pages: Page) -> Page:
    result, *others = pages
    for other in others:
        result = merge_pages(result, other)
    return result


@given(visits, sides)
def test_where_all_visits_show_links_their_validators_follow_too(
    history: list[Visit], sides: list[int]
) -> None:
    history = [
        replace(one, marks=one.marks or frozenset(), etag=str(one.at), url=f"{URL}?{one.at}")
        for one in history
    ]
    one, other = (page_after(*part) for part in parts_of(history, sides))
    expected = page_after(*sorted(history, key=lambda one: one.at))
    assert encode_page(merge_pages(one, other)) == encode_page(expected)


attempts = st.lists(
    st.builds(
        Visit,
        url=st.sampled_from([URL, "http://example.edu/%7Ea/", "https://www.example.edu/~a"]),
        at=st.integers(1, 9),
        news=st.sampled_from([News.SEEN, News.GONE, News.FAILED]),
        marks=st.none() | st.frozensets(st.integers(1, 5), max_size=3),
        digest=st.integers(0, 5),
        repeats=st.booleans(),
        etag=st.sampled_from(["", "a", "b"]),
        last_modified=st.sampled_from(["", "c"]),
        harvest=st.none()
        | st.builds(Harvest, st.integers(1, 2), st.integers(1, 9), st.integers(0, 2)),
    ).map(sourced),
    max_size=8,
)


repeats = st.builds(
    Visit,
    url=st.just(URL),
    at=st.integers(1, 9),
    news=st.sampled_from(News),
    marks=st.none() | st.frozensets(st.integers(1, 3), max_size=2),
    digest=st.just(0),
    repeats=st.booleans(),
    etag=st.sampled_from(["", "a", "b"]),
).map(lambda one: replace(one, digest=one.at % 3))  # an archive has one answer a second


@given(
    st.lists(attempts, min_size=3, max_size=3)
    | st.lists(st.lists(repeats, max_size=8), min_size=3, max_size=3)
)
def test_merging_pages_depends_on_neither_order_nor_grouping_nor_repetition(
    histories: list[list[Visit]],
) -> None:
    a, b, c = (page_after(*history) for history in histories)
    merged = encode_page(joined(a, b, c))
    assert encode_page(joined(c, b, a)) == merged
    assert encode_page(merge_pages(a, merge_pages(b, c))) == merged
    assert encode_page(joined(a, b, c, b, a)) == merged
    assert encode_page(merge_pages(a, Page(URL))) == encode_page(merge_pages(a, a))


def test_what_repeats_two_pages_has_the_validators_of_neither() -> None:
    one, later = visit(10, 1, digest=4, etag="one"), visit(30, 1, digest=4, etag="later")
    repeat = Visit(URL, 50, News.REPEATED, digest=4)
    a, b, c = page_after(one), page_after(repeat), page_after(later)
    assert b.last_visit is None, "what it repeats is not known"
    merged = joined(a, b, c)
    assert (merged.last_visit, merged.etag) == (50, "")


def test_merging_pages_leaves_them_as_they_are() -> None:
    one, other = page_after(visit(10, 1, 2)), page_after(visit(20, 2, 3))
    before = copy(one), copy(other)
    merge(merge_pages(one, other), visit(30, 4, digest=4, harvest=Harvest(1, 30)))
    assert (one, other) == before


def test_a_failed_attempt_elsewhere_does_not_take_the_validators() -> None:
    one = page_after(visit(10, 1, etag='"a"'))
    other = page_after(Visit("http://example.edu/%7Ea/", 20, News.FAILED))
    merged = merge_pages(one, other)
    assert (merged.etag, merged.url, merged.failures) == ('"a"', URL, 1)
    assert merge_pages(page_after(visit(20, 1)), other).failures == 0, "it was seen in that second"


def test_a_page_gone_here_and_seen_later_elsewhere_is_back() -> None:
    gone = page_after(visit(10, 1), Visit(URL, 20, News.GONE))
    merged = merge_pages(gone, page_after(visit(30, 1)))
    assert (merged.gone, merged.not_before, merged.last_news) == (0, 0, 30)


# Marks other than links

RULES = 7
"""An odd number: what is watched are no links."""
START = 1_700_000_000


def shows(at: int, *marks: int) -> Visit:
    return by(RULES, at, *marks)


def found(page: Page, updates: Updates) -> list[int]:
    return list(replace(page, updates=updates).sound.update_times)


A, B = 1, 2


@pytest.mark.parametrize(
    ("updates", "shown_last", "news", "is_update"),
    [
        ("change", {B}, {A}, True),
        ("page", {B}, set(), False),
        ("any-change", {B}, {A}, True),
        ("any-change", {A, B}, set(), True),
    ],
)
def test_what_a_visit_brought_is_told_as_updates_are_counted(
    updates: Updates, shown_last: set[int], news: set[int], is_update: bool
) -> None:
    before = page_after(shows(10, A), shows(20, *shown_last))
    recorded = merged(before, shows(30, A), updates)
    assert (recorded.new_marks, recorded.updated, recorded.lost) == (news, is_update, 1)


visits_of_marks = st.lists(
    st.builds(
        lambda at, marks, rules: by(rules, at, *marks) if rules else Visit(URL, at),
        st.integers(0, 900).map(lambda number: START + number * DAY // 2),
        st.sets(st.integers(1, 4)),
        st.sampled_from([RULES, RULES, RULES, 9, 0]),
    ),
    max_size=20,
    unique_by=lambda visit: visit.at,
)
EVERY_UPDATE: tuple[Updates, ...] = ("page", "change", "any-change")


@given(visits_of_marks)
def test_updates_are_those_of_the_visits_one_by_one(visits: list[Visit]) -> None:
    visits.sort(key=lambda visit: visit.at)
    page = page_after(*visits)
    expected: dict[Updates, list[int]] = {updates: [] for updates in EVERY_UPDATE}
    new_marks = {visit.at: 0 for visit in visits}
    shown = [visit for visit in visits if visit.marks is not None]
    known = set(shown[0].marks or ()) if shown else set()
    for before, visit in pairwise(shown):
        if visit.rules == before.rules:
            new_marks[visit.at] = len(visit.marks - known)
            if new_marks[visit.at]:
                expected["page"].append(visit.at)
            if visit.marks - before.marks:
                expected["change"].append(visit.at)
            if visit.marks != before.marks:
                expected["any-change"].append(visit.at)
        known |= visit.marks
    assert {updates: found(page, updates) for updates in EVERY_UPDATE} == expected
    assert page.new_marks_by_visit() == [*new_marks.values()]


many_visits = st.lists(
    st.builds(
        lambda at, marks: shows(START + at * DAY // 4, *marks, 10 + at // 9),
        st.integers(0, 2_000),
        st.sets(st.integers(1, 3)),
    ),
    min_size=RECENT_VISITS - 5,
    max_size=RECENT_VISITS + 60,
    unique_by=lambda visit: visit.at,
)


@settings(max_examples=15)
@given(many_visits)
def test_thinned_pages_are_what_fewer_visits_would_have_shown(visits: list[Visit]) -> None:
    page = page_after(*sorted(visits, key=lambda visit: visit.at))
    kept = [visit for visit in visits if visit.at in set(page.visits)]
    assert page == page_after(*sorted(kept, key=lambda visit: visit.at))


@pytest.mark.parametrize(("new", "most"), [(20, 18_200), (1, 3_000)])
def test_a_page_all_of_whose_marks_are_new_at_each_visit_takes_nine_bytes_for_each(
    new: int, most: int
) -> None:
    days = range(100)
    page = page_after(
        *(shows(START + day * DAY, *range(new * day, new * (day + 1))) for day in days)
    )
    body = encode_page(page)
    assert decode_page(body) == page
    assert len(body) <= most
