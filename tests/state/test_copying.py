"""A state copied: whole, to any store and number of shards, once or again after it was stopped."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.exceptions import StateError
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.sites import menu_id
from hacs_crawler.state import (
    Annotation,
    Estimation,
    Label,
    Prediction,
    State,
    Visit,
    copying,
    site_links,
)
from hacs_crawler.state.address import open_state, open_store
from hacs_crawler.state.copying import COPYING, copy_states, finish_copy, refuse_filled
from hacs_crawler.utils.times import DAY
from servers import redis_server

URLS = [f"http://h{number}.edu/~a/{page}" for number in range(9) for page in ("", "b.html")]
LABEL = Label("hacs", "bayes", 365.0, "visit", siblings=True)
Open = Callable[..., State]


@pytest.fixture(params=["sqlite", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:
        if request.param == "redis":
            port = stack.enter_context(redis_server(tmp_path))
            address = f"redis://127.0.0.1:{port}/0"
        else:
            address = f"sqlite:///{tmp_path}/target.db"

        def open_(namespace: str = "copy") -> State:
            store = open_store(address, namespace, tmp_path)
            stack.callback(store.close)
            return State(store, Estimation())

        open_.address = address
        yield open_


@pytest.fixture
def source(tmp_path: Path) -> Iterator[State]:
    """A state with something of each kind."""
    store = open_store(f"sqlite:///{tmp_path}/source.db", "hacs", tmp_path)
    with closing(State(store, Estimation(updates="site"))) as state:
        state.keep_label(LABEL)
        predicted = Prediction(LABEL.number, DAY, 0.5, 0.1, 3.0, 0.0)
        for day in (1, 5, 9):
            shown = {"marks": frozenset(range(day)), "prediction": predicted}
            state.record([Visit(url, day * DAY + 1, **shown) for url in URLS])
        ids = [page_id_of(url) for url in URLS]
        store.annotate("findings", [Annotation(one, b"", b"%d" % one) for one in ids])
        store.annotate("sources", [Annotation(7, b"", b"of a host")])
        yield state


def contents(*states: State) -> object:
    pages, annotations, outcomes = {}, {}, []
    for state in states:
        for page in state.pages():
            page.version = 0
            pages[page.url] = page
        for kind in state.store.kinds():
            for batch in state.store.all_annotations(kind):
                annotations.setdefault(kind, {}).update(batch)
        outcomes += state.outcomes().tolist()
    own = {"schema", "identity", "estimate", COPYING}
    notes = {key: value for key, value in state.store.notes().items() if key not in own}
    return pages, annotations, sorted(outcomes), notes


def copied(source: State, *targets: State) -> None:
    copy_states([source], targets, "there")
    finish_copy(targets)


def test_a_copy_holds_what_the_state_holds(source: State, opened: Open) -> None:
    target = opened()
    copied(source, target)
    assert contents(target) == contents(source)
    target.record([Visit(URLS[0], 12 * DAY, marks=frozenset({99}))])
    assert len(target.load([page_id_of(URLS[0])])[page_id_of(URLS[0])].visits) == 4


def test_a_copy_may_have_another_number_of_shards(source: State, opened: Open) -> None:
    three, two = ([opened(f"hacs.{number}-{count}") for number in range(count)] for count in (3, 2))
    copied(source, *three)
    assert sum(state.store.count() for state in three) == len(URLS)
    assert contents(*three) == contents(source)
    copy_states(three, two, "three")
    finish_copy(two)
    assert contents(*two) == contents(source)
    for state in two:
        menus = {menu_id(page.url) for page in state.pages() if page is not None}
        assert {*state.store.annotated(site_links.KIND).tolist()} == menus


@pytest.mark.parametrize("step", ["_write", "_copy_annotations"])
def test_a_copy_that_was_stopped_is_refused_and_finished_by_the_next_one(
    step: str, source: State, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    target = opened()
    with monkeypatch.context() as patched:
        patched.setattr(copying, step, stop)
        with pytest.raises(KeyboardInterrupt):
            copy_states([source], [target], "there")
    with pytest.raises(StateError, match="is an unfinished copy of there: repeat the command"):
        open_state(opened.address, "copy", tmp_path, Estimation())
    refuse_filled([target.store], "there", "here")
    source.record([Visit(URLS[3], 11 * DAY, marks=frozenset({50}))])
    copied(source, target)
    assert contents(target) == contents(source)
    open_state(opened.address, "copy", tmp_path, Estimation()).close()


def test_a_place_that_is_not_empty_is_refused(source: State, opened: Open) -> None:
    target = opened()
    target.record([Visit(URLS[0], DAY, marks=frozenset())])
    with pytest.raises(StateError, match="here is not empty: copy to another address"):
        refuse_filled([target.store], "there", "here")
    copying.copy_states([source], [opened("other")], "there")
    with pytest.raises(StateError, match="not empty"):
        refuse_filled([opened("other").store], "another place", "here")


def test_the_command_copies_from_one_address_to_another(
    source: State, opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    address = opened.address
    command = ["copy", f"sqlite:///{tmp_path}/source.db", address, "--to-shards", "2"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert f"{len(URLS)} pages copied" in caplog.text
    assert contents(opened("hacs.0-2"), opened("hacs.1-2")) == contents(source)
    caplog.clear()
    assert CliRunner().invoke(app, command).exit_code == 1
    (record,) = caplog.records
    assert "is not empty" in record.message
