"""Runs spiders one after the other in one process, each in a folder of its own, as `scrapy crawl` would.

    python batch.py JOBS SECONDS

JOBS is a file of lines of JSON: a folder, and what follows `scrapy crawl`. Into the folder go the log,
what is printed, what the site was asked for, and at last the exit status. A crawl that takes longer ends
the process.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from urllib.request import urlopen

from scrapy.cmdline import ScrapyArgumentParser
from scrapy.commands.crawl import Command
from scrapy.crawler import CrawlerRunner
from scrapy.utils.defer import deferred_f_from_coro_f, maybe_deferred_to_future
from scrapy.utils.log import configure_logging, install_scrapy_root_handler
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor


async def crawl(arguments: Sequence[str]) -> int:
    """Return the exit status that `scrapy crawl` would have."""
    command, parser = Command(), ScrapyArgumentParser(conflict_handler="resolve")
    command.settings = settings = get_project_settings()
    command.add_options(parser)
    options, (name,) = parser.parse_known_args(arguments)
    command.process_options([name], options)
    install_scrapy_root_handler(settings)
    try:
        runner = CrawlerRunner(settings)
        await maybe_deferred_to_future(runner.crawl(name, **options.spargs))
    except Exception:  # noqa: BLE001 - it would end that process, and only that
        traceback.print_exc()
        return 1
    return int(runner.bootstrap_failed)


async def crawl_one_after_the_other(jobs: Sequence[str], seconds: int) -> None:
    for folder, *arguments in map(json.loads, jobs):
        os.chdir(folder)
        os.environ["JUDGED_FILE"] = f"{folder}/judged.jsonl"
        signal.alarm(seconds)
        with (
            Path("output").open("w") as output,
            Path("log").open("w") as log,
            redirect_stdout(output),
            redirect_stderr(log),
        ):
            status = await crawl(arguments)
            gc.collect()  # an error that nobody looked at is logged now
        signal.alarm(0)
        with urlopen(f"{os.environ['SITE']}/-/asked") as answer:
            Path("asked").write_bytes(answer.read())
        Path("status").write_text(str(status))


def main() -> None:
    jobs, seconds = Path(sys.argv[1]).read_text().splitlines(), int(sys.argv[2])
    os.environ["SCRAPY_SETTINGS_MODULE"] = "judged.settings"
    settings = get_project_settings()
    install_reactor(settings["TWISTED_REACTOR"])
    configure_logging(settings, install_root_handler=False)
    from twisted.internet import reactor

    crawls = deferred_f_from_coro_f(crawl_one_after_the_other)(jobs, seconds)
    crawls.addErrback(lambda failure: failure.printTraceback())
    crawls.addBoth(lambda _: reactor.stop())
    reactor.run()


main()
