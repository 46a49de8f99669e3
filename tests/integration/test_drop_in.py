"""The wheel, in a virtual environment of its own, in a fresh Scrapy project, with one line added."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

from servers import Site


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def installed(wheel: Path, folder: Path) -> Path:
    """The Python of a new environment, which has the wheel, and what it requires from this one.

    That this is declared is tested elsewhere; to install it all takes half a minute.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", where, cwd=folder).strip())
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "required.pth").write_text("".join(f"{path}\n" for path in sorted(ours)))
    return python


def test_one_line_in_a_new_project_ranks_and_records(
    wheel: Path, tmp_path: Path, site: Site
) -> None:
    python = installed(wheel, tmp_path / "env")
    run(python, "-m", "scrapy", "startproject", "shop", cwd=tmp_path)
    project = tmp_path / "shop"
    settings = project / "shop" / "settings.py"
    text = settings.read_text()
    assert "ADDONS = {}" in text
    one_line = 'ADDONS = {"hacs_crawler.addon.HacsAddon": 500}'
    settings.write_text(text.replace("ADDONS = {}", one_line))
    (project / "shop" / "spiders" / "plain.py").write_text(
        "import scrapy\n\n\nclass Plain(scrapy.Spider):\n"
        '    name = "plain"\n'
        f'    start_urls = ["{site.url}/a", "{site.url}/b", "{site.url}/gone"]\n\n'
        "    def parse(self, response):\n"
        '        yield {"url": response.url, "new": len(response.meta["hacs"].new_marks)}\n'
    )
    site.set("/a", "/x")
    site.set("/b", "/x")
    crawl = ("-m", "scrapy", "crawl", "plain", "-s", "DOWNLOAD_DELAY=0", "-O", "items.jsonl")
    first = run(python, *crawl, cwd=project)
    assert "'hacs/first_visits': 2" in first
    assert "'hacs/ranked': 3" in first
    assert (project / ".hacs" / "state.db").exists()
    site.set("/b", "/x", "/y")
    second = run(python, *crawl, cwd=project)
    assert "'hacs/updates': 1" in second
    assert "'downloader/response_status_count/404': 2" in second  # robots.txt and the page
    assert '"new": 1' in (project / "items.jsonl").read_text()
    listed = (python, "-m", "scrapy", "list")
    assert subprocess.check_output(listed, cwd=project, text=True) == "plain\n"
    scholar = ("-m", "scrapy", "crawl", "scholar", "-a", "seeds=state", "-s", "DOWNLOAD_DELAY=0")
    alike = ("-s", "HACS_SPIDERS=1", "-s", "HACS_WATCH=links")
    assert "'hacs/visits': 2" in run(python, *scholar, *alike, cwd=project)
