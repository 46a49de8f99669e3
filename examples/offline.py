"""Runs a command with a small web of its own in place of the public one: no request leaves this machine.

    python ../offline.py scrapy crawl news

The command's proxy answers for all hosts. Each page has news every second.
"""

import asyncio
import os
import signal
import ssl
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PAGE = """<!DOCTYPE html><html><head><title>{path}</title></head><body><h1>{path}</h1>
<div class="side_categories"><a href="/list">all</a></div>
<article class="product_pod"><h3><a href="/book/{now}{path}" title="A book">A book</a></h3>
<p class="price_color">{now} pounds</p></article>
<div class="card-content"><h2>Cook {now}</h2><h3>A ship</h3><time>today</time></div>
<main><p>What these terms allow, they allow since second {now}, and nothing beside it.</p></main>
</body></html>"""
SCRIPTED = """<!DOCTYPE html><html><head><title>{path}</title></head><body><div id="app"></div><script>
for (const name of ["a", "b", "c", "{now}"])
  document.body.insertAdjacentHTML("beforeend", `<p><a href="/${{name}}">about ${{name}}</a></p>`)
</script></body></html>"""
SITEMAP = """<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://{host}/one</loc></url><url><loc>https://{host}/two</loc></url></urlset>"""
STOCK = '{{"products": [{{"id": 1, "stock": {now}}}]}}'


def page(host: str, path: str) -> tuple[int, str, str]:
    """Return status, type and text of a page."""
    kind, text, status = "text/html", PAGE, 200
    if path == "/robots.txt":
        kind, text, status = "text/plain", "", 404
    elif path == "/sitemap.xml":
        kind, text = "application/xml", SITEMAP
    elif path.startswith("/products"):
        kind, text = "application/json", STOCK
    elif path.startswith("/js/"):
        text = SCRIPTED
    return status, kind, text.format(host=host, path=path, now=int(time.time()))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, after a CONNECT in TLS."""
    method, target = await read_head(reader)
    host = urlsplit(target).hostname or ""
    if method == "CONNECT":
        host = target.partition(":")[0]
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        await writer.start_tls(context_of(host))
        _, target = await read_head(reader)
    status, kind, text = page(host, urlsplit(target).path)
    body = text.encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


async def read_head(reader: asyncio.StreamReader) -> tuple[str, str]:
    method, target, *_ = (await reader.readuntil(b"\r\n\r\n")).decode().split()
    return method, target


@cache
def context_of(host: str) -> ssl.SSLContext:
    """Return a context with a certificate that nobody vouches for: Scrapy asks for no more."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pem)
        context.load_cert_chain(file.name)
    return context


async def main(*command: str) -> int:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    proxies = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "127.0.0.1,localhost"}
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **proxies})
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)  # the command's
    return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
