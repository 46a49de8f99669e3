"""Which changes of prices a crawl of a quarter of a shop finds, against Last-Obs.

python benchmarks/shop.py              # two minutes; --products 204 --days 8 --seeds 3

A local shop: a page of each product, and of eight categories. The prices change each day, week, month or
hardly ever, by product; one product in ten has a new stock status each nine days. A Scrapy spider with
the add-on watches its items. It crawls the whole shop once, and then a quarter of its pages a day, by a
clock that is moved. A change is found by a visit that shows another item than the visit before.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

HERE = Path(__file__).parent
DAY = 86_400
START = 1_700_000_000
CATEGORIES = 8
PERIODS = [1] * 6 + [7] * 14 + [30] * 30 + [2_000] * 50
"""Days between two changes of a price, in a hundred products."""
SPIDER = """
import scrapy

class Shop(scrapy.Spider):
    name = "shop"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield from response.follow_all(css="a.category", callback=self.parse)
        yield from response.follow_all(css="a.product", callback=self.parse_product)

    def parse_product(self, response):
        yield {name: response.css(f".{name}::text").get() for name in ("name", "price", "stock")}
"""


def clock() -> float:
    """Return the time of the simulated day."""
    return float(os.environ["SHOP_NOW"])


class Shop:
    """The pages of the shop on its present day, and the products that were asked for."""

    def __init__(self, products: int, seed: int) -> None:
        drawn = random.Random(seed)
        self.products = products
        self.day = 0
        self.asked: list[int] = []
        self._period = [drawn.choice(PERIODS) for _ in range(products)]
        self._phase = [drawn.randrange(period) for period in self._period]
        self._stock_phase = [drawn.randrange(90) for _ in range(products)]

    def item(self, product: int, day: int) -> tuple[int, int]:
        """Return the numbers of changes of the price and of the stock up to a day."""
        price = (day + self._phase[product]) // self._period[product]
        return price, (day + self._stock_phase[product]) // 90

    def daily(self) -> list[int]:
        return [product for product, period in enumerate(self._period) if period == 1]

    def body(self, path: str) -> str:
        kind, _, number = path.strip("/").partition("/")
        if not kind:
            return "".join(f"<a class=category href=/c/{one}>x</a>" for one in range(CATEGORIES))
        if kind == "c":
            shown = range(int(number), self.products, CATEGORIES)
            return "".join(f"<a class=product href=/p/{one}>x</a>" for one in shown)
        product = int(number)
        self.asked.append(product)
        price, stock = self.item(product, self.day)
        fields = {"name": f"Product {product}", "price": f"{product + 9}.{price % 100:02}"}
        fields["stock"] = f"batch {stock}"
        return "".join(f"<p class={name}>{text}</p>" for name, text in fields.items())


def serve(shop: Shop) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            is_page = self.path == "/" or self.path.startswith(("/c/", "/p/"))
            body = shop.body(self.path).encode() if is_page else b""
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def crawl(folder: Path, url: str, day: int, settings: dict[str, object]) -> None:
    environment = {
        **os.environ,
        "SHOP_NOW": str(START + day * DAY),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    options = {
        "ADDONS": json.dumps({"hacs_crawler.addon.HacsAddon": 500}),
        "HACS_STATE": f"sqlite:///{folder}/state.db",
        "HACS_CLOCK": "shop.clock",
        "HACS_PAGES": "all",
        "HACS_WATCH": "items",
        **settings,
    }
    command = [sys.executable, "-m", "scrapy", "runspider", str(folder / "spider.py")]
    for name, value in {**options, "LOG_LEVEL": "ERROR"}.items():
        command += ["-s", f"{name}={value}"]
    subprocess.run([*command, "-a", f"url={url}"], env=environment, cwd=folder, check=True)


def measure(products: int, days: int, seed: int, policy: str) -> None:
    shop = Shop(products, seed)
    server = serve(shop)
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    daily = shop.daily()
    found = visits = to_daily = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spider.py").write_text(SPIDER)
        crawl(folder, url, 0, {"HACS_POLICY": policy, "HACS_REVISIT": 0})
        seen = dict.fromkeys(range(products), 0)
        quarter = {"HACS_BUDGET": (products + CATEGORIES) // 4, "HACS_REVISIT": "budget"}
        for day in range(1, days + 1):
            shop.day, shop.asked = day, []
            crawl(folder, url, day, {"HACS_POLICY": policy, **quarter})
            for product in set(shop.asked):
                found += shop.item(product, day) != shop.item(product, seen[product])
                seen[product] = day
            visits += len(shop.asked)
            to_daily += len(set(shop.asked) & set(daily)) if day > days // 2 else 0
    server.shutdown()
    changes = sum(
        shop.item(product, day) != shop.item(product, day - 1)
        for product in range(products)
        for day in range(1, days + 1)
    )
    share = to_daily / (len(daily) * (days - days // 2))
    print(f"| {seed} | {policy} | {changes} | {visits} | {found} | {share:.0%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("products", 204), ("days", 8), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    print("| shop | policy | changes | visits | found | daily prices visited, second half |")
    print("|---:|---|---:|---:|---:|---:|")
    for seed in range(options.seeds):
        for policy in ("hacs", "last-obs"):
            measure(options.products, options.days, seed, policy)


if __name__ == "__main__":
    main()
