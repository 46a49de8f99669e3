"""Write anew which query parameters are trackers' (hacs_crawler/links/trackers.txt), from Brave's lists.

python benchmarks/trackers.py [--of CLEAN_URLS_JSON QUERY_FILTER_JSON] [--revision COMMIT] [--date DAY]

Without `--of` the lists are fetched from https://github.com/brave/adblock-lists at that revision. Taken
are the parameters that are a tracker's on every site; what holds on some sites only is left out. Pages
get a new baseline of links where the names have changed.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

PLACE = "https://raw.githubusercontent.com/brave/adblock-lists/{revision}/brave-lists/{name}"
LISTS = ("clean-urls.json", "query-filter.json")
OUTPUT = Path(__file__).parents[1] / "hacs_crawler" / "links" / "trackers.txt"
HEADER = """\
# Query parameters by which trackers know a click, on whatever site: one name a line, in small letters.
# Made by benchmarks/trackers.py of clean-urls.json and query-filter.json in
# https://github.com/brave/adblock-lists, revision {revision} of {date}.
#
# This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the
# MPL was not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/.
"""


def names_in(rules: list[dict[str, Any]]) -> set[str]:
    """The parameters of the rules for every site, but for those that are no plain name."""
    names = {name for rule in rules if "*://*/*" in rule["include"] for name in rule["params"]}
    return {name.lower() for name in names if name.replace("-", "").replace("_", "").isalnum()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--of", nargs=2, type=Path, metavar="FILE")
    parser.add_argument("--revision", default="master", help="(%(default)s)")
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat())
    options = parser.parse_args()
    if options.of:
        texts = [file.read_bytes() for file in options.of]
    else:
        urls = [PLACE.format(revision=options.revision, name=name) for name in LISTS]
        texts = [urlopen(url).read() for url in urls]
    names = set[str]().union(*(names_in(json.loads(text)) for text in texts))
    header = HEADER.format(revision=options.revision, date=options.date)
    OUTPUT.write_text(header + "".join(f"{name}\n" for name in sorted(names)))
    print(f"{len(names)} names in {OUTPUT}")


if __name__ == "__main__":
    main()
