"""Commands that only read need no file system that can be written to."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hacs_crawler.state import Estimation, News, Visit, open_state
from hacs_crawler.utils.times import DAY

pytestmark = pytest.mark.slow  # `hacs` as a process

MOUNTED = ("unshare", "--map-root-user", "--mount", "sh", "-ec")
NOW = 1_700_000_000


def _may_mount() -> bool:
    done = shutil.which("unshare") and subprocess.run([*MOUNTED, "true"], check=False)
    return bool(done) and done.returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="needs namespaces of the kernel")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_state_on_a_read_only_file_system_is_read(tmp_path: Path, is_killed: bool) -> None:
    state = tmp_path / "state"
    state.mkdir()
    url = f"sqlite:///{state}/state.db"
    opened = open_state(url, "hacs", Path(), Estimation())
    for number in range(3):
        opened.record([Visit(f"http://a.example/{number}", int(NOW - DAY), News.SEEN)])
    if is_killed:  # what it wrote last is in the write-ahead log
        kept = tmp_path / "kept"
        shutil.copytree(state, kept)
    opened.close()
    if is_killed:
        shutil.rmtree(state)
        kept.rename(state)
    commands = ["rank", "export", "report -o report.html"] if is_killed else ["export"]
    hacs = [f"{sys.executable} -m hacs_crawler {one} -s HACS_STATE={url}" for one in commands]
    read_only = [f"mount --bind {state} {state}", f"mount -o remount,ro,bind {state}"]
    refused = f"! {sys.executable} -m hacs_crawler estimate -s HACS_STATE={url}"
    script = "\n".join([*read_only, *hacs, refused])
    done = subprocess.run([*MOUNTED, script], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(rf"ERROR: cannot .* {state}/state.db: .*read-?only", done.stderr.decode())
    assert done.stdout.decode().count("http://a.example/2") >= len(commands[:2])
    if is_killed:
        assert "http://a.example/2" in (tmp_path / "report.html").read_text()
