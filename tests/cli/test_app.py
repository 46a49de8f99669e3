"""The command `hacs` as a whole: what it lists, how it starts, and how it ends."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import forks
import hacs_crawler
from hacs_crawler.cli.app import BY_AIM, app, load

ROOT = Path(hacs_crawler.__file__).parents[1]
HACS = (sys.executable, "-m", "hacs_crawler")
HEAVY = {"numpy", "scipy", "scrapy", "twisted", "lxml", "matplotlib", "hacs_crawler.state"}
INTERRUPTED = """
import signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if {is_hidden}:
                    raise ImportError("a library failed to load") from None
                raise

sys.meta_path.insert(0, Interrupting())
from hacs_crawler.__main__ import main
sys.argv = ["hacs", "rank"]
main()
"""
ON_WINDOWS = """
import os, signal
for name in ("SIGHUP", "SIGKILL", "pthread_sigmask"):
    delattr(signal, name)
del os.killpg
"""

COMMANDS = {name: summary for commands in BY_AIM.values() for name, summary in commands.items()}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=forks.HANG_SECONDS,
        check=False,
    )


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", code, *arguments)


@pytest.mark.slow
def test_help_lists_every_command_by_what_one_wants_and_loads_none_of_them() -> None:
    code = (
        "import sys; from hacs_crawler.__main__ import main\n"
        "sys.argv = ['hacs', '--help']\n"
        "try:\n    main()\n"
        "finally:\n    print(sorted(sys.modules), file=sys.stderr)"
    )
    shown = python(code)
    assert all(f" {name} " in shown.stdout for name in COMMANDS)
    assert all(aim in shown.stdout for aim in BY_AIM)
    assert HEAVY & set(eval(shown.stderr)) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_sentence_of_its_own_help(name: str) -> None:
    loaded = load(name)
    assert " ".join((loaded.help or "").split("\n\n")[0].split()) == COMMANDS[name]
    assert all("\n" not in paragraph for paragraph in (loaded.help or "").split("\n\n"))
    assert loaded.name == name
    for command in (loaded, *getattr(loaded, "commands", {}).values()):
        # what stands in brackets is markup, and not shown
        assert all(option.help and "[" not in option.help for option in command.params)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_when_asked_in_short(name: str) -> None:
    found = CliRunner().invoke(app, [name, "-h"])
    assert found.exit_code == 0
    assert f"{name} [OPTIONS]" in found.stdout
    assert "--install-completion" not in found.stdout


@pytest.mark.slow
def test_the_package_is_a_command_and_says_its_version() -> None:
    assert run(*HACS, "--version").stdout == f"hacs-crawler {version('hacs-crawler')}\n"


@pytest.mark.parametrize(
    ("typed", "place", "expected"),
    [("hacs ra", "1", ["rank"]), ("hacs experiment ex", "2", ["export"])],
)
@pytest.mark.slow
def test_a_shell_completes_commands_and_their_own_and_options(
    typed: str, place: str, expected: list[str]
) -> None:
    asked = {"_HACS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": place}
    assert run(*HACS, **asked).stdout.split() == expected


@pytest.mark.parametrize(
    ("module", "is_hidden"), [("hacs_crawler.cli.app", False), ("typer", True), ("numpy", True)]
)
@pytest.mark.slow
def test_ctrl_c_while_the_program_loads_ends_it_with_one_line(module: str, is_hidden: bool) -> None:
    stopped = python(INTERRUPTED.format(module=module, is_hidden=is_hidden))
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "Stopped.\n")


MADE_SOMETHING_ELSE = {
    "swallowed": """
class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def command(**_):
    Interrupted()
    print("went on")
""",
    "reported": """
def command(**_):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        logging.error("a library failed to load")
        raise SystemExit(1)
""",
    # `python -m` ends itself by SIGINT where a KeyboardInterrupt went through exec() of a text
    "while a class is made": """
def command(**_):
    exec("signal.raise_signal(signal.SIGINT)")
""",
}


@pytest.mark.parametrize("code", MADE_SOMETHING_ELSE.values(), ids=MADE_SOMETHING_ELSE)
@pytest.mark.slow
def test_ctrl_c_that_a_library_makes_something_else_of_ends_with_the_one_line(
    code: str, tmp_path: Path
) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import logging, signal\n"
        "import hacs_crawler.cli.app as app\n"
        "from hacs_crawler.__main__ import main\n"
        f"{code}\n"
        "app.app = command\n"
        "main()\n"
    )
    stopped = run(sys.executable, "-m", "interrupted", PYTHONPATH=str(tmp_path))
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "Stopped.\n")


@pytest.mark.slow
def test_what_runs_before_ctrl_c_is_heard_loads_little() -> None:
    """In that time Python itself answers: with a traceback, and at its own start with status 1."""
    code = (
        "import builtins, sys; before = set(sys.modules)\n"
        "import hacs_crawler.__main__\n"
        "print(*set(sys.modules) - before)"
    )
    loaded = run(sys.executable, "-S", "-c", code, PYTHONPATH=str(ROOT)).stdout.split()
    assert "hacs_crawler.__main__" in loaded
    assert {"typing", "re", "logging"} & set(loaded) == set()


@pytest.mark.slow
def test_ctrl_c_while_a_command_runs_ends_it_with_one_line(tmp_path: Path) -> None:
    first, endless = tmp_path / "first.cdx", tmp_path / "endless.cdx"
    first.write_text(f"edu,h)/ 20200101000000 http://h.edu/ text/html 200 {'A' * 32} 1\n")
    os.mkfifo(endless)
    held = os.open(endless, os.O_RDWR)  # neither blocks here nor ends there
    state = f"HACS_STATE=sqlite:///{tmp_path}/s.db"
    command = (*HACS, "import", str(first), str(endless), "-s", state)
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    begun = running.stderr.readline()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=forks.HANG_SECONDS)
    os.close(held)
    assert "1 visit recorded" in begun
    assert (running.returncode, said) == (130, "Stopped.\n")


@pytest.mark.slow
def test_every_command_loads_where_signals_are_those_of_windows() -> None:
    code = (
        f"{ON_WINDOWS}\n"
        "from hacs_crawler.cli.app import load\n"
        f"for name in {list(COMMANDS)}:\n"
        "    print(load(name).name)"
    )
    loaded = python(code)
    assert loaded.stderr == ""
    assert loaded.stdout.split() == list(COMMANDS)
