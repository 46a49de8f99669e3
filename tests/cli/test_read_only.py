"""Commands that only read need no file or folder that can be written to."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hacs_crawler.state import Estimation, News, Visit, open_state

pytestmark = pytest.mark.slow  # `hacs` as a process

AS_USER = ("setpriv", "--bounding-set", "-dac_override")  # without root's right to write anywhere
MOUNTED = ("unshare", "--map-root-user", "--mount", *AS_USER, "sh", "-ec")


def _may_mount() -> bool:
    done = shutil.which("unshare") and subprocess.run([*MOUNTED, "true"], check=False)
    return bool(done) and done.returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="needs namespaces of the kernel")
@pytest.mark.parametrize("made", ["mounted", "mounted after a kill", "not permitted"])
def test_a_state_that_cannot_be_written_is_read(tmp_path: Path, made: str) -> None:
    is_killed = made == "mounted after a kill"
    state = tmp_path / "state"
    state.mkdir()
    url = f"sqlite:///{state}/state.db"
    opened = open_state(url, "hacs", Path(), Estimation())
    for number in range(3):
        opened.record([Visit(f"http://a.example/{number}", 1_700_000_000, News.SEEN)])
    if is_killed:  # what it wrote last is in the write-ahead log
        kept = tmp_path / "kept"
        shutil.copytree(state, kept)
    opened.close()
    if is_killed:
        shutil.rmtree(state)
        kept.rename(state)
    commands = ["rank", "export", "report -o report.html"]
    hacs = [f"{sys.executable} -m hacs_crawler {one} -s HACS_STATE={url}" for one in commands]
    mounted = [f"mount --bind {state} {state}", f"mount -o remount,ro,bind {state}"]
    read_only = [f"chmod -R a-w {state}"] if made == "not permitted" else mounted
    refused = f"! {sys.executable} -m hacs_crawler estimate -s HACS_STATE={url}"
    script = "\n".join([*read_only, *hacs, refused])
    done = subprocess.run([*MOUNTED, script], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(rf"ERROR: cannot .* {state}/state.db: .*read-?only", done.stderr.decode())
    assert done.stdout.decode().count("http://a.example/2") >= 2
    assert "http://a.example/2" in (tmp_path / "report.html").read_text()
