// What is shown: the overview, or the page that the address names.

const WITHOUT = {
  newest: "No update has been found yet: it takes a second visit of a page to see what is new.",
  runs: "No run yet: each `scrapy crawl` under HACS adds one.",
  calibration: "No visit of a page seen before has been recorded yet, so there is nothing to compare p with.",
  signals: "No sitemap, feed or ping has been read yet; `HACS_SIGNALS` has crawls read them.",
};
const TABLES = ["newest", "pages", "runs", "calibration", "signals", "state"];
const CHARTS = { headline: yieldChart, plan: planCharts, runs: runsCharts, rates: rateChart, calibration: calibrationCharts };

function showAll() {
  byId("subtitle").textContent = DATA.subtitle;
  for (const section of document.querySelectorAll("#all section")) {
    const name = section.id;
    section.append(...(DATA.words[name] ?? []).map((text) => paragraph(text)));
    const figures = el("div", { class: "charts" });
    CHARTS[name]?.(figures);
    if (figures.children.length) section.append(figures);
    if (TABLES.includes(name)) table(section, name, DATA.tables[name], WITHOUT[name]);
  }
}

function showPage(holder, id) {
  const place = DATA.ids.indexOf(id);
  const back = el("p", {}, el("a", { href: "#pages" }, "← All pages"));
  if (place < 0) return holder.replaceChildren(back, el("h1", { tabindex: -1 }, "No such page in this report"), paragraph("`hacs show URL` tells what is known of any page."));
  const { url } = DATA.histories[place];
  const name = /^https?:/i.test(url) ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, el("bdi", {}, url)) : url;
  const [, ...columns] = DATA.tables.pages;
  const facts = columns.map(({ title, kind, values }) => el("div", {}, el("dt", {}, title), el("dd", {}, cell(kind, values[place] === "" ? null : values[place]))));
  const figures = el("div", { class: "charts" });
  holder.replaceChildren(back, el("h1", { tabindex: -1 }, name), el("dl", {}, ...facts), el("h2", {}, "Visits"), figures);
  pageChart(figures, DATA.histories[place]);
}

let leftAt = 0; // how far the overview was scrolled when a page was opened

function route() {
  const [all, one] = [byId("all"), byId("one")];
  const page = /^#page=(-?\d+)$/.exec(location.hash);
  if (page && !all.hidden) leftAt = scrollY;
  const isBack = !page && !one.hidden;
  all.hidden = Boolean(page);
  one.hidden = !page;
  if (page) {
    showPage(one, page[1]);
    scrollTo(0, 0);
    one.querySelector("h1").focus({ preventScroll: true });
  } else if (isBack) scrollTo(0, leftAt);
}

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !byId("one").hidden) location.hash = "#pages";
});
byId("all").hidden = false; // tables and charts are as wide as they are shown
showAll();
route();
