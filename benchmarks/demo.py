"""What `hacs demo` shows on other webs than its default: hits of each arm, and seconds, by seed.

`python benchmarks/demo.py [--seeds 10] [--rounds 13]`. Each line is one whole demonstration, with
processes, servers and state of its own. With --rounds 0 each takes the time that it takes by default.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from statistics import median

DEMO = (sys.executable, "-c", "from hacs_crawler.cli import app; app()", "demo", "--no-open")
FOUND = re.compile(r"(?:HACS|Last-Obs) found updates in (\d+) of (\d+)\s+visits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=13)
    options = parser.parse_args()
    length = ("--rounds", str(options.rounds)) if options.rounds else ()
    ratios: list[float] = []
    totals = [0, 0]
    print("| seed | visits each | HACS | Last-Obs | ratio | seconds |\n|---|---|---|---|---|---|")
    for seed in range(options.seeds):
        began = time.monotonic()
        done = subprocess.run(
            [*DEMO, "--seed", str(seed), *length], capture_output=True, text=True, check=True
        )
        seconds = time.monotonic() - began
        (hacs, visits), (last_obs, _) = FOUND.findall(done.stdout)
        ratios.append(int(hacs) / int(last_obs))
        totals = [totals[0] + int(hacs), totals[1] + int(last_obs)]
        print(
            f"| {seed} | {visits} | {hacs} | {last_obs} | {ratios[-1]:.2f} | {seconds:.0f} |",
            flush=True,
        )
    ahead = sum(ratio > 1 for ratio in ratios)
    print(
        f"\nHACS ahead in {ahead} of {len(ratios)}; ratio of all hits {totals[0] / totals[1]:.2f}, "
        f"median {median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
