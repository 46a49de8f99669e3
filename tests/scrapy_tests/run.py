"""Runs Scrapy's own tests with the add-on switched on, and judges the add-on by them.

They come from the source distribution of the Scrapy that is installed. A test that fails with the add-on
and passes without it has to be named in expected_failures.txt, with its reason; one that is named there
and passes has to be taken out. What fails without the add-on as well says nothing of it.

    python tests/scrapy_tests/run.py              the files that CI runs
    python tests/scrapy_tests/run.py --all        all of them
    python tests/scrapy_tests/run.py test_crawl.py "test_engine*.py"
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SECONDS_A_TEST = 60
SECONDS_IN_ALL = 3 * 3600
NEWER_PYTEST = (
    "-Wignore::pytest.PytestDeprecationWarning",
    "-Wignore:fixture:pytest.PytestWarning",
)
"""Scrapy's tests make errors of warnings, and a pytest that came after them warns of them."""
CI = (
    *("test_addons.py", "test_closespider.py", "test_core_scraper.py", "test_crawl.py"),
    *("test_downloaderslotssettings.py", "test_dupefilters.py", "test_engine*.py"),
    *("test_request_attribute_binding.py", "test_request_cb_kwargs.py", "test_request_dict.py"),
    *("test_request_left.py", "test_scheduler*.py", "test_signals.py", "test_spider_start.py"),
    *("test_spidermiddleware_process_start.py", "test_spidermiddleware_start.py"),
    *("test_pqueues.py", "test_spiderstate.py", "test_squeues*.py"),
)
"""The scheduler, engine, crawls, starts, their end, slots, and what is written to disk."""


@dataclass(frozen=True)
class Outcomes:
    """How tests ended; why is kept of those that failed."""

    ran: frozenset[str]
    failed: Mapping[str, str]


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = _sources(arguments.sources or folder, folder)
        files = _files(sources / "tests", ["*"] if arguments.all else arguments.files or CI)
        expected = read_expected(HERE / "expected_failures.txt")
        print(
            f"Scrapy {version('scrapy')}, {len(files)} files of tests, with the add-on:", flush=True
        )
        suite = _Suite(sources, folder, arguments.processes)
        return judge(suite.run, files, expected, is_all=arguments.all)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge the add-on by Scrapy's own tests.")
    parser.add_argument("files", nargs="*", help="patterns of files in Scrapy's tests folder")
    parser.add_argument("--all", action="store_true", help="run every file")
    parser.add_argument("--sources", type=Path, help="keep the source distribution in this folder")
    parser.add_argument("--processes", default="2", help="as pytest's -n (default: 2)")
    return parser.parse_args()


def _sources(kept: Path, folder: Path) -> Path:
    """Return a new folder with the tests of the installed Scrapy, its package left out."""
    scrapy = version("scrapy")
    archive = kept / f"scrapy-{scrapy}.tar.gz"
    if not archive.exists():
        kept.mkdir(parents=True, exist_ok=True)
        # pip asks the distribution's build tool for metadata: one that is there saves installing it
        isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *isolation]
        command = [*pip, "--no-binary=:all:", f"--dest={kept}", f"scrapy=={scrapy}"]
        subprocess.run(command, check=True)
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    sources = folder / f"scrapy-{scrapy}"
    shutil.rmtree(sources / "scrapy")  # tests are to find the one that is installed
    return sources


def _files(tests: Path, patterns: Iterable[str]) -> list[str]:
    """Return the test files and folders that match; raises SystemExit where a pattern matches none."""
    found: set[str] = set()
    for pattern in patterns:
        matching = {f"tests/{path.name}" for path in tests.glob(pattern) if _is_test(path)}
        if not matching and pattern not in CI:  # which names files of several versions
            sys.exit(f"there is no {pattern} in Scrapy's tests")
        found |= matching
    return sorted(found)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and (path.is_dir() or path.suffix == ".py")


@dataclass(frozen=True)
class _Suite:
    """Scrapy's tests in a folder of their own."""

    sources: Path
    folder: Path
    processes: str

    def run(self, tests: Iterable[str], *, with_addon: bool) -> Outcomes:
        """Run files, or tests by their names; one that takes too long is killed and has failed."""
        file = self.folder / "outcomes.jsonl"
        file.unlink(missing_ok=True)
        pytest = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        pytest += ["-p", "outcomes", f"--outcomes={file}", "-n", self.processes, "--no-summary"]
        pytest += [f"--timeout={SECONDS_A_TEST}", "--timeout-method=thread", "-r", "N"]
        process = subprocess.Popen(
            [*pytest, *NEWER_PYTEST, "--max-worker-restart=1000", *tests],
            cwd=self.sources,
            env=self._environment(with_addon=with_addon),
            start_new_session=True,
        )
        try:
            process.wait(SECONDS_IN_ALL)
        finally:
            with suppress(ProcessLookupError):  # a worker that was killed leaves its servers
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode not in (0, 1):  # 1: tests failed
            sys.exit(f"pytest did not come to its end: exit status {process.returncode}")
        return _read(file)

    def _environment(self, *, with_addon: bool) -> dict[str, str]:
        states = self.folder / "states"
        states.mkdir(exist_ok=True)
        paths = [HERE, *([HERE / "switched_on"] if with_addon else [])]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "SCRAPY_TESTS_STATES": str(states),
        }


def _read(file: Path) -> Outcomes:
    if not file.exists():
        sys.exit("pytest ran no test")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    failed = {line["test"]: line["why"] for line in lines if line["outcome"] == "failed"}
    return Outcomes(frozenset(line["test"] for line in lines), failed)


def judge(
    run: Callable[..., Outcomes], files: Sequence[str], expected: Collection[str], *, is_all: bool
) -> int:
    """Run the files, say what the add-on changes, and return the exit status."""
    first = run(files, with_addon=True)
    failed = set(first.failed)
    plain: set[str] = set()
    if failed:
        print(f"{len(failed)} failed; the same without the add-on:", flush=True)
        plain = set(run(sorted(failed), with_addon=False).failed)
    new = failed - plain - set(expected)
    unsteady: set[str] = set()
    if new:
        print(f"{len(new)} failed unexpectedly; once more:", flush=True)
        unsteady = new - run(sorted(new), with_addon=True).failed.keys()
        new -= unsteady
    mended = {test for test in expected if test in first.ran and test not in failed}
    gone = set(expected) - first.ran if is_all else set()
    for test in sorted(new):
        print(f"\n{test}\n{first.failed[test]}")
    print()
    _say("failed without the add-on too", plain)
    _say("failed, but not when run again", unsteady)
    _say("failed as expected", (failed - plain).intersection(expected))
    _say("named in expected_failures.txt, but passed: take it out", mended)
    _say("named in expected_failures.txt, but there is no such test", gone)
    _say("failed unexpectedly", new)
    wrong = len(new) + len(mended) + len(gone)
    print(f"{len(first.ran - failed - mended)} passed, {wrong} failed")
    return min(wrong, 1)


def _say(what: str, tests: Iterable[str]) -> None:
    for test in sorted(tests):
        print(f"{what}: {test}")


def read_expected(file: Path) -> dict[str, str]:
    """Read the names of tests and, after `  # `, why they are expected to fail."""
    expected = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        test, separator, reason = line.partition("  # ")
        if not separator or not reason.strip():
            sys.exit(f"{file.name}, line {number}: a test is followed by two spaces, # and why")
        expected[test.strip()] = reason.strip()
    return expected


if __name__ == "__main__":
    sys.exit(main())
