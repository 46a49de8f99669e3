"""One command measures everything, and what documents say of it is what it measured."""

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_each_benchmark_is_run_with_all_others_or_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    everything = runpy.run_path(str(BENCHMARKS / "all.py"))
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - {"all"}
    scripts |= {path.parent.name for path in BENCHMARKS.glob("*/__main__.py")}
    assert set(everything["BENCHMARKS"]) | set(everything["LEFT_OUT"]) == scripts
    assert not set(everything["BENCHMARKS"]) & set(everything["LEFT_OUT"])


@pytest.mark.filterwarnings("default")  # those of libraries that only benchmarks import
@pytest.mark.parametrize(
    "script",
    sorted([*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("*/__main__.py")]),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_every_benchmark_says_what_it_is_for(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))  # some add the tests to it
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(
            str(script.parent if script.stem == "__main__" else script), run_name="__main__"
        )
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out.startswith("usage: ")


def test_what_documents_quote_of_benchmarks_is_what_these_found() -> None:
    files = runpy.run_path(str(BENCHMARKS / "figures.py"))["files"]
    assert all(path.read_text() == text for path, text in files())
