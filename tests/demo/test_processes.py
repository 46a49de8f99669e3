"""Processes of a demonstration, and how they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hacs_crawler.demo.processes import SIGNALS, EndSignals, Interruption, Processes
from hacs_crawler.exceptions import HacsError

WAITING = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture
def signals() -> Iterator[EndSignals]:
    """Signals of which none is ignored, as SIGHUP would be under nohup."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    with EndSignals() as noted:
        yield noted
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def processes(tmp_path: Path, signals: EndSignals) -> Iterator[Processes]:
    with Processes(tmp_path, signals) as started:
        yield started


def test_the_output_of_a_process_is_returned_and_its_log_kept(processes: Processes) -> None:
    code = "import sys; print('found'); print('said', file=sys.stderr)"
    assert processes.run("job", "-c", code) == "found\n"
    assert processes.log("job").read_text() == "said\n"


def test_a_process_that_fails_is_named_with_the_end_of_its_log(processes: Processes) -> None:
    code = "import sys; [print('line', n, file=sys.stderr) for n in range(50)]; sys.exit(3)"
    with pytest.raises(HacsError) as error:
        processes.run("job", "-c", code)
    text = str(error.value)
    assert text.startswith("job has failed (exit status 3); the end of its log:\n  line 38\n")
    assert text.endswith("\n  line 49")


def test_a_process_that_was_killed_is_said_to_be(processes: Processes) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(HacsError, match=r"job has failed \(SIGKILL\)"):
        processes.run("job", "-c", code)


def test_a_server_that_cannot_start_is_named_with_the_end_of_its_log(processes: Processes) -> None:
    with pytest.raises(HacsError, match=r"(?s)server has failed .*ZeroDivisionError"):
        processes.serve("server", "-c", "1 / 0")


def test_a_server_that_ends_while_it_is_needed_is_an_error(processes: Processes) -> None:
    server = int(processes.serve("server", "-c", WAITING))
    code = f"import os, time; os.kill({server}, 9); time.sleep(600)"
    with pytest.raises(HacsError, match=r"server has failed \(SIGKILL\)"):
        processes.run("job", "-c", code)


def test_what_runs_at_the_end_of_the_block_is_ended(tmp_path: Path, signals: EndSignals) -> None:
    with Processes(tmp_path, signals) as processes:
        pid = int(processes.serve("server", "-c", WAITING))
    assert not psutil.pid_exists(pid)


def test_what_will_not_end_is_killed_with_all_that_it_started(
    tmp_path: Path, signals: EndSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hacs_crawler.demo.processes.PATIENCE_SECONDS", 0.2)
    with Processes(tmp_path, signals) as processes:
        grandchild = psutil.Process(int(processes.serve("server", "-c", STUBBORN)))
    grandchild.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_waiting_for_a_process(
    tmp_path: Path, signals: EndSignals, number: signal.Signals
) -> None:
    before = psutil.Process().children()  # servers of other tests
    code = f"import os, time; os.kill({os.getpid()}, {int(number)}); time.sleep(600)"
    with pytest.raises(Interruption) as interruption, Processes(tmp_path, signals) as processes:
        processes.run("job", "-c", code)
    assert interruption.value.exit_status == 128 + number
    assert set(psutil.Process().children()) <= set(before)


def test_signals_do_again_what_they_did_when_the_block_is_over() -> None:
    before = signal.getsignal(signal.SIGINT)
    with EndSignals():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with EndSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            signals.check()
    finally:
        signal.signal(signal.SIGHUP, before)
