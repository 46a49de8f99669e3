"""What the constants of `model/churn.py` change: each halved and doubled, chances as odds.

python benchmarks/churn_constants.py FOLDER     # as that of churn.py; about 5 minutes

The first year of the crawl in `churn.py`, 5 visits a day, with five pages each of `session`, `token` and
`box`: the hits on FOLDER's pages, and the share of the visits that went to these.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from subprocess import check_output
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
CHANCE, PLAIN = "{k} * {x} / (1 - {x} + {k} * {x})", "{k} * {x}"
# Of a table of kinds, the chance that links are fleeting.
TABLE = "tuple((n, a / t, b / t, {k} * c / t) for n, a, b, c in {x} for t in [a + b + {k} * c])"
CHANCES = ("CHURNING_PAGES", "_LASTING_SHARE", "_NEWS", "_NEARLY_ALWAYS", "_OF_NEARLY_ALWAYS")
NUMBERS = ("SUSPICIOUS_RATE", "SUSPICIOUS_SCORE", "_UPDATES", "_LASTING", "_FLEETING")
TABLES = ("_KINDS_OF_PAGES", "_KINDS_OF_CHURN")
FORMS = {"none": "{k}", "_FASTEST_NEWS": "{x} + float(np.log({k}))"}
FORMS |= dict.fromkeys(CHANCES, CHANCE)
FORMS |= dict.fromkeys(NUMBERS, PLAIN)
FORMS |= dict.fromkeys(TABLES, TABLE)
CRAWL = """
import pathlib, sys, churn
pages = churn.with_traps(pathlib.Path(sys.argv[1]), ["session", "token", "box"] * 5)
score, share = churn.run(pages, 5, 1, churn.hacs)
print(f"{score.hits} | {share:.1%}", end="")
"""


def measured(folder: Path, name: str, factor: float) -> str:
    """Return the last cells of a row: of a crawl by a copy of the package."""
    with TemporaryDirectory() as place:
        package = copytree(HERE.parent / "hacs_crawler", f"{place}/hacs_crawler")
        module = Path(package, "model/churn.py")
        change = f"{name} = {FORMS[name].format(x=name, k=factor)}"
        # where all constants are known, and nothing follows from them yet
        module.write_text(module.read_text().replace("_NODES,", f"{change}\n_NODES,", 1))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([place, str(HERE)])}
        return check_output(
            [sys.executable, "-c", CRAWL, folder], env=environment, cwd=place, text=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folder = parser.add_argument("folder") and Path(parser.parse_args().folder).resolve()
    cells = [("none", 1), *((name, factor) for name in [*FORMS][1:] for factor in (0.5, 2))]
    print("| constant | factor | hits | visits to traps |\n|---|---:|---:|---:|")
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda cell: measured(folder, *cell), cells)
        for cell, found in zip(cells, results, strict=True):
            print(f"| {cell[0]} | {cell[1]} | {found} |", flush=True)
