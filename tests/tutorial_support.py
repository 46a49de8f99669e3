"""Does what the tutorial says, in a folder of its own.

`python tests/tutorial_support.py` writes the outputs in docs/tutorial.md again.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"
WIDTH = 100
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ .*(?:\n> .*)*$", re.MULTILINE)
FILE = re.compile(r"# (at the end of )?(\S+)\n")
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class Step:
    """A command, and what the tutorial says that it prints; or a file, with its content."""

    command: str = ""
    output: str = ""
    file: str = ""
    content: str = ""
    appends: bool = False


def steps(text: str) -> Iterator[Step]:
    """Yield what a reader of a tutorial does, in order."""
    for language, body in BLOCK.findall(text):
        if language == "python":
            named = FILE.match(body)
            assert named is not None, body
            yield Step(file=named[2], content=body[named.end() :], appends=bool(named[1]))
            continue
        outputs = [part.strip("\n") for part in COMMAND.split(body)[1:]]
        for command, output in zip(COMMAND.findall(body), outputs, strict=True):
            yield Step(command=re.sub(r"^[$>] ", "", command, flags=re.MULTILINE), output=output)


class Reader:
    """Does in a folder what the tutorial says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SCRAPY_")},
            "COLUMNS": str(WIDTH),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def write(self, step: Step) -> None:
        with (self._folder / step.file).open("a" if step.appends else "w") as file:
            file.write(f"\n{step.content}" if step.appends else step.content)

    def run(self, step: Step) -> str:
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {step.command}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{step.command}: {done.stdout}"
        return done.stdout.rstrip().lstrip("\n")


def rewritten(text: str, outputs: list[str]) -> str:
    """Return a tutorial with the outputs of its commands, in order."""
    left = iter(outputs)

    def block(found: re.Match[str]) -> str:
        if found[1] == "python":
            return found[0]
        commands = COMMAND.findall(found[2])
        parts = [f"{command}\n{_folded(next(left))}" for command in commands]
        return "```console\n" + "".join(parts) + "```"

    return BLOCK.sub(block, text)


def _folded(output: str) -> str:
    lines = [
        part
        for line in output.splitlines()
        for part in (textwrap.wrap(line, WIDTH) if line.startswith("INFO: ") else [line])
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def main() -> None:
    """Write the tutorial again."""
    text = TUTORIAL.read_text()
    outputs = []
    with tempfile.TemporaryDirectory() as folder:
        one = Reader(Path(folder))
        for step in steps(text):
            if step.file:
                one.write(step)
            else:
                outputs.append(step.output if "…" in step.output else one.run(step))
                if "…" in step.output:
                    one.run(step)
    TUTORIAL.write_text(rewritten(text, outputs))


if __name__ == "__main__":
    main()
