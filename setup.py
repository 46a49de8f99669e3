"""What pyproject.toml cannot say: the README as a package index shows it, and where the project is."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

REPOSITORY = ""
"""The repository's address, such as https://github.com/somebody/hacs-crawler; "" before it has one."""

ROOT = Path(__file__).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = re.compile(r"!\[([^]]*)\]\((?!\w+:)([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!\w+:|#)([^)]+)\)")


def readme(repository: str) -> str:
    """Return the README with relative links and images made absolute, at the tag of this version.

    Without a repository's address such links become plain text, and such images are left out.
    """
    text = (ROOT / "README.md").read_text()
    if not repository:
        return LINK.sub(r"\1", IMAGE.sub("", text))
    text = IMAGE.sub(rf"![\1]({repository}/raw/v{VERSION}/\2)", text)
    return LINK.sub(rf"[\1]({repository}/blob/v{VERSION}/\2)", text)


def project_urls(repository: str) -> dict[str, str]:
    """Return the links that the index shows beside the README."""
    paper = {"Paper": "https://doi.org/10.1109/BigData50022.2020.9377796"}
    if not repository:
        return paper
    files = f"{repository}/blob/v{VERSION}"
    return paper | {
        "Repository": repository,
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


if __name__ == "__main__":  # as setuptools runs it
    setup(
        long_description=readme(REPOSITORY),
        long_description_content_type="text/markdown",
        project_urls=project_urls(REPOSITORY),
    )
