"""A headless Chromium for tests, driven over the DevTools protocol through a pair of pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest

# the first has no window to draw, which is more than half of what the others take
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
if "HACS_TESTS_CHROMIUM" in os.environ:
    _NAMES = (os.environ["HACS_TESTS_CHROMIUM"],)
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install the package chromium-headless-shell"
)

_SECONDS = 300.0
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--disable-quic", "--mute-audio"),
)
_LAUNCH = (  # Chromium reads commands from its file 3 and writes answers to its file 4
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """A running Chromium; `tab` opens a page in it."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Have a command carried out and return its result; events that come meanwhile are kept."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, method: str, session: str) -> None:
        """Wait for an event of a tab that has not been waited for."""
        while True:
            for place, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    del self.events[place]
                    return
            self.events.append(self._read())

    def tab(self, width: int = 1400, height: int = 900, *, is_dark: bool = False) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        return tab

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select([self._answers], [], [], _SECONDS)[0], "Chromium does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


class Tab:
    """One page in a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, target: Path | str, fragment: str = "") -> None:
        """Open a file, or an address, and wait until it has been loaded and laid out."""
        self.navigate(target, fragment)
        self.settle()

    def navigate(self, target: Path | str, fragment: str = "") -> None:
        """Open a file, or an address, and wait until it has been loaded; it need not have scripts."""
        self.call("Page.navigate", url="about:blank")
        self._browser.wait("Page.loadEventFired", self._session)
        address = target if isinstance(target, str) else target.absolute().as_uri()
        self.call("Page.navigate", url=address + fragment)
        self._browser.wait("Page.loadEventFired", self._session)

    def settle(self) -> None:
        """Wait until what was observed of sizes has been drawn, which only the tab in front is."""
        self.call("Page.bringToFront")
        self.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, a promise's when it is kept."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, script: str) -> None:
        """Click the middle of the element that an expression returns, as a person would."""
        x, y = self.run(
            f"(() => {{ const one = {script};"
            "one.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = one.getClientRects()[0];"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer there, without a click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def press(self, key: str, text: str = "") -> None:
        """Press a key of that name, such as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=codes[key],
                text=text if kind == "keyDown" else "",
            )
        self.settle()

    def write(self, text: str) -> None:
        """Write into the element that has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def complaints(self) -> list[str]:
        """Return all errors and warnings so far: of scripts, of the console, of what was blocked."""
        self.settle()
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(json.dumps(event["params"]["args"]))
            elif event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
        return found

    def screenshot(self, *, is_whole: bool = False) -> bytes:
        """Return a picture, PNG, of what is seen or of the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def close(self) -> None:
        self.call("Page.close")


@contextmanager
def running_browser(profile: Path) -> Iterator[Browser]:
    """Run Chromium with a profile of its own."""
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    theirs = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (their_commands, their_answers)]
    os.close(their_commands)
    os.close(their_answers)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _LAUNCH, *map(str, theirs), str(CHROMIUM)),
            *(*_OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"),
        ],
        pass_fds=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for one in theirs:
        os.close(one)
    try:
        browser = Browser(commands, answers)
        yield browser
        browser.call("Browser.close")
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
