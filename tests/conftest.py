"""Real servers and stores for the tests."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from twisted.internet import asyncioreactor

from browser import CHROMIUM
from hacs_crawler.state import Store, open_store
from integration_support import ROOT, AnySpider, Project
from servers import RedisCluster, Site, redis_server
from workers import locked, shared_folder

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to skip the tests that need a browser where they have to run, as in CI."""
    if os.environ.get("HACS_TESTS_NEED_CHROMIUM") and CHROMIUM is None:
        raise pytest.UsageError(
            "HACS_TESTS_NEED_CHROMIUM is set, but there is no Chromium: install the package "
            "chromium-headless-shell"
        )


@pytest.fixture(scope="session", autouse=True)
def sigint_reaches_what_tests_start() -> None:
    """Let SIGINT end the processes of tests where this one ignores it, as a background job does.

    What a process ignores is ignored by those that it starts, but not what it handles by doing nothing.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


@pytest.fixture(autouse=True)
def each_test_is_in_no_project() -> Iterator[None]:
    """Forget the project in which a test ran a command: Scrapy names it to all that are run later."""
    yield
    os.environ.pop("SCRAPY_SETTINGS_MODULE", None)


@pytest.fixture(scope="session", autouse=True)
def lines_have_no_width() -> None:
    """Let commands write as into a pipe: pytest-xdist tells its workers how wide its terminal is."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session", autouse=True)
def asyncio_reactor() -> Iterator[asyncio.AbstractEventLoop]:
    """Install what Scrapy runs on: before 2.15 it looks for a reactor even where a loop runs."""
    loop = asyncio.new_event_loop()
    asyncioreactor.install(loop)
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(scope="session")
def cluster_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A node of a Redis Cluster of three."""
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.ports[0]


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What is published, a source distribution and the wheel built of it, once for all workers."""
    folder = shared_folder(tmp_path_factory, "distributions")
    with locked(folder / "lock"):
        if not any(folder.glob("*.whl")):
            build = [sys.executable, "-m", "build", "--outdir", str(folder)]
            subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="session")
def wheel(distributions: tuple[Path, Path]) -> Path:
    return distributions[1]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, f"sqlite:///{tmp_path}/state.db")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine; what never ends fails."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 60))
    return True


KINDS = ("sqlite", "redis", "cluster")
SLOW_FOLDERS = {"demo", "doctor", "dropin", "integration", "reliability"}
SERVERS = {"browser", "cluster_port", "pywb", "redis_port"}


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what is in slow folders or needs a server.

    Leave out what runs on a Redis Cluster but for a handful, unless all of it is asked for.
    """
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        kinds = {*map(str, _parameters(item).values())}
        needed = {*getattr(item, "fixturenames", ())}
        if folder in SLOW_FOLDERS or SERVERS & needed or kinds & {*KINDS[1:]}:
            item.add_marker(pytest.mark.slow)
    if os.environ.get("HACS_TESTS_CLUSTER"):
        return
    left_out = {one for one in items if _is_on_a_cluster(one)}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [one for one in items if one not in left_out]


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_on_a_cluster(item: pytest.Item) -> bool:
    kinds = {_parameters(item).get(name) for name in ("new_store", "state_url")}
    is_on_one = "cluster" in kinds or item.path.name == "test_cluster.py"
    return is_on_one and not item.get_closest_marker("cluster")


def address(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/state.db"
    if request.param == "redis":
        return f"redis://127.0.0.1:{request.getfixturevalue('redis_port')}/0"
    return f"redis+cluster://127.0.0.1:{request.getfixturevalue('cluster_port')}"


@pytest.fixture(params=KINDS)
def state_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty state of each kind that can be opened again."""
    return address(request)


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def open_state(state_url: str, namespace: str) -> Iterator[Callable[[], Store]]:
    """Opens the same state again and again; closes what was opened."""
    with ExitStack() as stack:
        opened = partial(open_store, state_url, namespace, Path())
        yield lambda: stack.enter_context(closing(opened()))


@pytest.fixture(params=KINDS)
def new_store(request: pytest.FixtureRequest) -> Iterator[Callable[[], Store]]:
    """Opens an empty state each time."""
    url = address(request)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(url, uuid.uuid4().hex, Path())))


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    return new_store()


@pytest.fixture
def any_spider(tmp_path: Path, site: Site) -> AnySpider:
    return AnySpider(tmp_path, site)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], str]:
    """Write a file, and return its path."""

    def write_file(content: bytes) -> str:
        (tmp_path / "x.cdx").write_bytes(content)
        return str(tmp_path / "x.cdx")

    return write_file
