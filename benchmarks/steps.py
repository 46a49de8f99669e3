"""Instructions a page of the steps of a visit: what the excess in `instructions.py` is made of.

    python benchmarks/steps.py

Each step is done to a hundred pages of `crawl.py`, as many as are written at a time, three times and
nine times, under valgrind; a page costs the difference over six hundred. Pages have one visit, and the
second one finds the same links. In the event loop a page is observed and merged; in the state's thread
it is read, estimated and written. What the loop does beside that has no row: requests are held and
ranked, what is known of them is noted, parts are asked, and stats counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from instructions import ENVIRONMENT, VALGRIND

PREPARED = """
import sys, tempfile
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace
from scrapy.http import HtmlResponse

from crawl import page as body_of
from hacs_crawler.crawl.observation import observe, tree_of
from hacs_crawler.links import LinkRules, page_id_of
from hacs_crawler.state import Prediction, State, merged
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.recorded import outcome_record

DAY, FIRST = 86_400, 1_700_000_000
folder = Path(tempfile.mkdtemp())
state = State(open_store(f"sqlite:///{folder}/state.db", "hacs", folder), Estimation())
predicted = Prediction(1, FIRST, 0.5, 0.1, 1.0, 0.0)
rules = LinkRules()
pages = [HtmlResponse(f"http://127.0.0.1:8000/{n}/", body=body_of(n)) for n in range(100)]
other = [HtmlResponse(one.url, body=body_of(n, 1)) for n, one in enumerate(pages)]
trees = [tree_of(one) for one in (*pages, *other)]  # the spider's selectors use them
ids = [page_id_of(one.url) for one in pages]
state.record([observe(one, one.url, FIRST, rules, predicted).visit for one in pages])
known = state.load(ids)

def seen(answers, at=FIRST + DAY, known=known):
    return [
        observe(one, one.url, at, rules, predicted, page=known.get(key)).visit
        for key, one in zip(ids, answers)
    ]

def merge(visits, known=known):
    return [merged(known[key], one) for key, one in zip(ids, visits)]

def record(number):
    known = state.load(ids)
    visits = seen(pages, FIRST + (number + 2) * DAY, known)
    state.record(visits, known, merge(visits, known))

visits = seen(pages)
recorded = merge(visits)
after = [one.after for one in recorded]
state.estimation.estimate(after)
for number in range(int(sys.argv[1])):
    {step}
"""
STEPS = {
    "event loop: observe a body as before": "seen(pages)",
    "event loop: observe another body with the same links": "seen(other)",
    "event loop: observe a new page": "seen(pages, known={})",
    "event loop: copy and merge": "merge(visits)",
    "state: read from SQLite and decode": "state.load(ids)",
    "state: estimate": "state.estimation.estimate(after)",
    "state: encode": "[encode_page(one) for one in after]",
    "state: ranking row": "[encode_row(one) for one in after]",
    "state: outcome record": "[outcome_record(one, 'page') for one in recorded]",
    "all of these but the other bodies, with the write": "record(number)",
}


def count(step: str, times: int) -> int:
    done = subprocess.run(
        [*VALGRIND, sys.executable, "-c", PREPARED.replace("{step}", step), str(times)],
        cwd=Path(__file__).parent,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    print("| step | thousand instructions a page |\n|---|---:|")
    for name, step in STEPS.items():
        print(f"| {name} | {(count(step, 9) - count(step, 3)) / 600_000:.0f} |", flush=True)


if __name__ == "__main__":
    main()
