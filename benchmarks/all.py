"""Every benchmark in one go, in under an hour.

python benchmarks/all.py DATA     # the folder of scholarly-timelines and terms-changes
python benchmarks/all.py DATA --only links store

One after the other, as processes of their own; on a machine that does nothing else, or times mean
little: each result says how busy it was. One that takes longer than `MOST_SECONDS` is stopped, and what
it had printed is kept. What a benchmark prints becomes results/NAME.md; then README.md, and the figures
that documents quote, are written anew (figures.py). Exits with 1 where a benchmark failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import figures

HERE = Path(__file__).parent
MOST_SECONDS = 600.0
FOLDER, TERMS = "FOLDER", "TERMS"
FOLDERS = {FOLDER: "scholarly-timelines", TERMS: "terms-changes"}
"""What stands for these folders of DATA in the arguments of a benchmark."""
BENCHMARKS = {
    "ranking": "-n 100000 --repeat 1",
    "estimators": "",
    "estimate": "--pages 100000 --repeat 1",
    "links": "",
    "crawl": "--pages 1500 --rounds 9",
    "instructions": "",
    "steps": "",
    "polite": "--rounds 1",
    "store": "--rows 200000 --pages 5000 --visits 3000",
    "scale": "--largest 1000000 --repeat 1",
    "plan": "--pages 10000000 --only SQLite --repeat 2",
    "shards": "--pages 100000 1000000 --repeat 2",
    "workers": "--pages 5000 --visits 3000 --requests 2000 --repeat 1",
    "export": "--pages 10000",
    "every_page": "--runs 12 --pages 60",
    "rendering": "--runs 2 --pages 50 --apps 10",
    "recrawl": f"{TERMS} {FOLDER}",
    "simulate": FOLDER,
    "slow_pages": f"{FOLDER} {TERMS} --budgets 1 5",
    "terms": f"{TERMS} --watch text --days 60 --budget 38",
    "singh": "--pages 3000",
    "site_links": FOLDER,
    "siblings": f"{FOLDER} --seeds 1 --budgets 5 --sites 1 10",
    "signals": f"{FOLDER} --seeds 1 --recall 0.9 --false 0.01",
    "churn": f"{FOLDER} --budgets 5 --numbers 6",
    "churn_constants": FOLDER,
    "traps": "--runs 20 --pages 100 --traps 10 --budget 11",
    "shop": "",
    "calibration": FOLDER,
    "instant": "--webs 1 --days 15",
    "experiment": f"{FOLDER} {TERMS}",
    "interest": "",
    "seed_lists": "",
    "publications": "",
    "wayback": f"{FOLDER} --sites 10 --skip memory",
}
LEFT_OUT = {
    "archives": "needs a folder of archive files",
    "trackers": "writes a list that ships, from the public network",
    "timelines": "makes data for others",
    "figures": "measures nothing: it writes what the others found",
}


class Done(NamedTuple):
    """A benchmark that was run."""

    command: str
    seconds: float
    load: float
    printed: str
    problem: str


def script_of(name: str) -> Path:
    """Return the script of a benchmark, or the folder that is one."""
    return HERE / name if (HERE / name).is_dir() else HERE / f"{name}.py"


def run(name: str, data: Path) -> Done:
    arguments = shlex.split(BENCHMARKS[name])
    own = [str(data / FOLDERS[one]) if one in FOLDERS else one for one in arguments]
    load, started = os.getloadavg()[0], time.monotonic()
    process = subprocess.Popen(
        [sys.executable, script_of(name), *own],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=MOST_SECONDS)
        last = "".join(errors.strip().splitlines()[-1:])
        problem = f"ended with status {process.returncode}: {last}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # and the servers that it has started
        printed, _ = process.communicate()
        problem = f"stopped after {MOST_SECONDS:.0f} s"
    command = shlex.join(["python", f"benchmarks/{script_of(name).name}", *arguments])
    return Done(command, time.monotonic() - started, load, printed.strip(), problem)


def result(name: str, done: Done) -> str:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    problem = f"**{done.problem}**\n\n" if done.problem else ""
    return (
        f"# {name}\n\n    {done.command}\n\n{datetime.now(UTC):%Y-%m-%d}, commit {commit or 'unknown'}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {done.seconds:.0f} s, load "
        f"{done.load:.1f} at its start.\n\n{problem}{done.printed}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    arguments = parser.parse_args()
    failed = []
    for number, name in enumerate(arguments.only, start=1):
        print(f"{number} of {len(arguments.only)}: {name}", end="", file=sys.stderr, flush=True)
        done = run(name, arguments.data)
        print(f", {done.seconds:.0f} s {done.problem}", file=sys.stderr, flush=True)
        (figures.RESULTS / f"{name}.md").write_text(result(name, done))
        failed += [name] * bool(done.problem)
    for path, text in figures.files():
        path.write_text(text)
    if failed:
        sys.exit(f"failed, or stopped: {', '.join(failed)}")


if __name__ == "__main__":
    main()
