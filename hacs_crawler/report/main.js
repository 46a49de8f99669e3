// What is shown: the overview, or the page that the address names.

let leftAt = 0; // how far the overview was scrolled when a page was opened

function route() {
  const { page, section, told } = readAddress();
  if (page !== undefined) return openPage(page);
  const [all, one] = [byId("all"), byId("one")];
  const isBack = !one.hidden;
  all.hidden = false;
  one.hidden = true;
  one.replaceChildren();
  document.title = "HACS report";
  if (told.size) {
    asked.clear();
    for (const [key, how] of told) asked.set(key, how);
    for (const apply of applied.values()) apply();
  } else if (asked.size) history.replaceState(null, "", overviewAddress());
  if (isBack) scrollTo({ top: leftAt, behavior: "instant" });
  else if (section) byId(section)?.scrollIntoView();
}

function openPage(id) {
  const [all, one] = [byId("all"), byId("one")];
  if (!all.hidden) leftAt = scrollY;
  all.hidden = true;
  one.hidden = false;
  const name = drawPage(one, id);
  document.title = `${name} · HACS report`;
  scrollTo({ top: 0, behavior: "instant" });
  one.querySelector("h1").focus({ preventScroll: true });
}

function drawPage(holder, id) {
  if (placeOfPage.has(id)) {
    showPage(holder, placeOfPage.get(id));
    return shortUrl(P.url[placeOfPage.get(id)]);
  }
  showUnknown(holder, id);
  return "No such page";
}

function backLink() {
  return el("p", { class: "back" }, el("a", { href: overviewAddress() }, "← All pages"));
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || hideHint()) return;
  if (!byId("one").hidden && event.target.tagName !== "INPUT") location.hash = overviewAddress();
});

function draw() {
  showHeader();
  showFind();
  showPlan();
  showRuns();
  showExperiment();
  showCalibration();
  showPages();
  showSignals();
  showState();
}

function start() {
  for (const [key, how] of readAddress().told ?? []) asked.set(key, how);
  byId("all").hidden = readAddress().page !== undefined;
  draw();
  addEventListener("hashchange", route);
  const { page, section } = readAddress();
  if (page !== undefined) openPage(page);
  else if (section) byId(section)?.scrollIntoView({ behavior: "instant" });
}

start();
