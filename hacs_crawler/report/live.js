// Of a report that a server keeps live: ask for newer data, and draw it where the reader is.

let tag = "";

function follow() {
  setTimeout(async () => {
    await renew();
    follow();
  }, 1000 * DATA.live);
}

async function renew() {
  try {
    const answer = await fetch("data.json", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status === 304) return tellLive();
    if (!answer.ok) return tellLive(await answer.text());
    tag = answer.headers.get("ETag") ?? "";
    DATA = await answer.json();
    await redraw();
    tellLive();
  } catch {
    tellLive("the server does not answer");
  }
}

function tellLive(problem = "") {
  byId("live").hidden = !problem;
  byId("live").textContent = problem && `This is no longer live: ${problem}. It shows ${momentText(DATA.now)} UTC.`;
}

// Draw anew, and leave the scroll, the focus and the cursor where they are.
async function redraw() {
  const top = scrollY;
  const label = document.activeElement?.getAttribute("aria-label");
  const cursor = document.activeElement?.selectionStart;
  const { page } = readAddress();
  await draw();
  if (page !== undefined) drawPage(byId("one"), page);
  scrollTo({ top, behavior: "instant" });
  const same = label && document.querySelector(`[aria-label=${CSS.escape(label)}]`);
  same?.focus({ preventScroll: true });
  if (same?.setSelectionRange) same.setSelectionRange(cursor, cursor);
}
