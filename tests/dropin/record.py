"""Records what the rows of the table do without the add-on, which depends on Scrapy alone.

    python tests/dropin/record.py [ROW ...]

writes a fingerprint of each run with the Scrapy that is installed, of all rows or of those named and the
rows that run with them. A row that has none, or whose runs
with the add-on have another one, is run without the add-on too: it fails where these two differ. So a
record that is missing or old costs time and hides nothing.
"""

import json
import sys
import tempfile
from collections import ChainMap
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "recorded" / f"scrapy-{version('scrapy')}.json"
PROCESSES = 3


def recorded() -> dict[str, list[str]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def _of_rows(names: Sequence[str]) -> dict[str, list[str]]:
    from dropin.judge import fingerprint, plainly_seen
    from dropin.site import JudgedSite
    from dropin.test_table import CASES, run

    with tempfile.TemporaryDirectory() as folder, JudgedSite() as site:
        ran = run(names, site, Path(folder) / "plain", "")
    return {
        name: [fingerprint(seen, CASES[name]) for seen in plainly_seen(ran[name], CASES[name])]
        for name in names
    }


def main() -> None:
    sys.path.insert(0, str(HERE.parent))
    from dropin.test_table import CASES, names_beside

    together = {tuple(names_beside(name, CASES)) for name in sys.argv[1:] or CASES}
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = dict(ChainMap(*pool.map(_of_rows, sorted(together, key=len, reverse=True))))
    FILE.parent.mkdir(exist_ok=True)
    kept = recorded() if sys.argv[1:] else {}
    FILE.write_text(json.dumps({**kept, **found}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
