"""What pyproject.toml cannot say: the README as a package index shows it, and where the project is."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

REPOSITORY = "https://github.com/OWNER/hacs-crawler"
"""The only place to change once the repository has an address."""

ROOT = Path(__file__).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FILES = f"{REPOSITORY}/blob/v{VERSION}"
RELATIVE = re.compile(r"(!?)(\[[^]]*\]\()(?!\w+:|#)([^)]+)\)")


def readme() -> str:
    """Return the README with links and images that hold on any site: those of this version."""

    def absolute(link: re.Match[str]) -> str:
        base = FILES.replace("/blob/", "/raw/") if link[1] else FILES
        return f"{link[1]}{link[2]}{base}/{link[3]})"

    return RELATIVE.sub(absolute, (ROOT / "README.md").read_text())


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls={
        "Repository": REPOSITORY,
        "Documentation": f"{FILES}/docs/index.md",
        "Changelog": f"{FILES}/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
        "Paper": "https://doi.org/10.1109/BigData50022.2020.9377796",
    },
)
