"""The server of `hacs demo --news`: its web, and an access log that grows while its readers read.

`python -m hacs_crawler.demo.news_server FOLDER SEED AUTHORS` prints its port when it is ready, and ends
when its standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from hacs_crawler.demo import clock
from hacs_crawler.demo.archive import HTML, Reply
from hacs_crawler.demo.news import READ_DAYS, log_line, make_news, reads_of
from hacs_crawler.demo.server import CLOCK_FILE, LiveWeb, Server
from hacs_crawler.utils.times import DAY

LOG_FILE: Final = "access.log"
LOG_SECONDS: Final = 0.1
"""How often, in real time, readers' requests are written."""


class AccessLog:
    """An access log, to which readers and crawlers write."""

    def __init__(self, file: Path) -> None:
        self._stream = file.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Write whole lines."""
        with self._lock:
            self._stream.write(text)
            self._stream.flush()


def serve(folder: Path, seed: int, authors: int) -> None:
    """Serve until standard input ends; raises HacsError."""
    web = make_news(seed, authors)
    reads, log = reads_of(web, seed), AccessLog(folder / LOG_FILE)
    log.write("".join(reads.lines(web.start - READ_DAYS * DAY, web.start)))
    written = float(web.start)

    def now() -> float:
        return clock.read(folder / CLOCK_FILE)

    homes = LiveWeb(web.homes, now)

    def answer(place: str) -> Reply:
        body = web.html(unquote(urlsplit(place).path), now())
        return homes.answer(place) if body is None else Reply(200, body, {"Content-Type": HTML})

    def note(path: str, status: int, agent: str) -> None:
        log.write(log_line("127.0.0.1", path, now(), agent, status))

    def read_on() -> None:
        nonlocal written
        pause = threading.Event()
        while not pause.wait(LOG_SECONDS):
            until = now()
            log.write("".join(reads.lines(written, until)))
            written = until

    server = Server()
    server.begin(answer, note)
    threading.Thread(target=read_on, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # threads may still be answering
