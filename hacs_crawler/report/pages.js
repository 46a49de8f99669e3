// Single pages: their columns in tables, and a view of each.

const P = DATA.pages;
const placeOfPage = new Map(P.id.map((id, place) => [id, place]));

function shortUrl(url) {
  const bare = url.replace(/^https?:\/\//i, "");
  return bare.length > 90 ? `${bare.slice(0, 55)}…${bare.slice(-32)}` : bare;
}

function pageLink(place) {
  return el("a", { href: `#page=${P.id[place]}`, title: P.url[place] },
    urlText(shortUrl(P.url[place])));
}

// Columns with a moment: by UTC, and by the reader's own clock where that is another.
function times(title, words, value) {
  const column = { isText: true, first: "descending", value, csv: (row) => isoText(value(row)) };
  const here = { ...column, title: `${title}, here`, words: `${words}, by the clock of ${ZONE}`, cell: (row) => hereText(value(row)) };
  return [{ ...column, title: `${title}, UTC`, words: `${words}, UTC`, cell: (row) => momentText(value(row)) }, ...(IS_UTC ? [] : [here])];
}

// A column with how long ago something was.
function moment(title, words, value, none = "never") {
  return { title, words: `${words}; CSV files have the time, UTC`, value: (row) => value(row) || null, csv: (row) => isoText(value(row)),
    cell: (row) => el("span", { title: bothText(value(row)) }, value(row) ? agoText(value(row), DATA.now) : none) };
}

const PAGE = { title: "Page", words: "The page's URL; a click shows what is known of it", kind: "page", isText: true, value: (row) => P.url[row.page], cell: (row) => pageLink(row.page) };
const RATE = { title: "Updates", words: "How often links are added, by the estimate 1/λ; sorted by λ, updates a day, which CSV files have",
  value: (row) => row.rate ?? P.rate[row.page], cell: (row) => everyText(row.rate ?? P.rate[row.page]) + (P.visits[row.page] < 2 ? " (prior)" : "") };
const CHANCE = { title: "p", words: "The probability that links were added since the last visit",
  value: (row) => row.p ?? P.p[row.page], cell: (row) => chanceText(row.p ?? P.p[row.page]) };
const LAST_VISIT = { ...moment("Last visit", "How long ago the page was last seen", (row) => P.last[row.page]), first: "ascending" };
const LAST_UPDATE = moment("Last update", "τ: how long ago a visit last found new links", (row) => P.lastUpdate[row.page], "none seen");
const VISITS = { title: "Visits", words: "Visits that saw the page, of those that are kept", value: (row) => P.visits[row.page], cell: (row) => numberText(P.visits[row.page]) };
const UPDATES = { title: "Found", words: "Visits that found an update",
  value: (row) => P.updates[row.page], cell: (row) => numberText(P.updates[row.page]) };
const FAILURES = { title: "Failed", words: "Attempts since the last visit that told nothing",
  value: (row) => P.failures[row.page], cell: (row) => numberText(P.failures[row.page]) };
const QUIET = { title: "Quiet for", words: "From the last update, or the first visit, to the last visit; CSV files have seconds",
  value: (row) => P.last[row.page] - (P.lastUpdate[row.page] || P.first[row.page]),
  cell: (row) => durationText((P.last[row.page] - (P.lastUpdate[row.page] || P.first[row.page])) / DAY) };
const CHURN = { title: "Churn", words: "The chance that a request shows new links by itself, however little time has passed",
  value: (row) => P.churn[row.page], cell: (row) => chanceText(P.churn[row.page]) };
const GONE = { title: "Answered gone", words: "How often in a row it answered 404 or 410",
  value: (row) => P.gone[row.page], cell: (row) => (P.gone[row.page] === 1 ? "once" : `${P.gone[row.page]} times`) };
const UNTIL = { title: "Left alone until", words: "Not visited before this day, for it may be gone for good", csv: (row) => isoText(P.notBefore[row.page]), first: "ascending", value: (row) => P.notBefore[row.page],
  cell: (row) => dayText(P.notBefore[row.page]) };

function pageTable(holder, key, name, places, columns) {
  table(holder, { name, key, columns: [PAGE, ...columns], rows: places.map((page) => ({ page })), unit: ["page", "pages"],
    text: (row) => P.url[row.page] });
}

function showFind() {
  if (!DATA.counts.known) return leaveEmpty("find", noPages());
  say("find", `The ${plural(P.id.length, "page")} of this report's lists, the most promising first. Type a part of a URL. Of any other page of the state `,
    el("code", {}, "hacs show URL"), " tells.");
  const places = P.id.map((_, place) => place).sort((one, other) => (P.p[other] ?? -1) - (P.p[one] ?? -1));
  pageTable(tableOf("find"), "find", "Pages in lists", places, [CHANCE, RATE, LAST_VISIT, LAST_UPDATE, VISITS, UPDATES, FAILURES]);
}

// An address of a page that the report does not know.
function showUnknown(holder, id) {
  holder.replaceChildren(
    backLink(),
    el("h1", { tabindex: -1 }, "No such page in this report"),
    el("p", {}, "The page with the number ", el("code", {}, id), " is in none of the report's lists. ", el("code", {}, "hacs show URL"),
      " tells what the state knows of a page."),
  );
}

// The visits of a page: when, whether an update was found, how many links were new, and λ after it.
function visitsOf(place) {
  const history = P.history[place];
  let at = 0;
  const visits = history.at.map((step, number) => ({ at: (at += step), number, isUpdate: false, links: 0 }));
  history.updates.forEach((number, k) => Object.assign(visits[number], { isUpdate: true, links: history.links[k] }));
  history.echoes.forEach((number) => { visits[number].isEcho = true; });
  history.estimates.forEach((number, k) => Object.assign(visits[number],
    { rate: history.rate[k], low: history.low?.[k], high: history.high?.[k] }));
  return visits;
}

function whatFound(visit) {
  if (visit.number === 0) return "first visit";
  if (!visit.isUpdate) return "nothing new";
  if (!visit.links) return "changed content";
  return `${plural(visit.links, "new link")}${visit.isEcho ? ", known on other pages of the site" : ""}`;
}

function showPage(holder, place) {
  const visits = visitsOf(place);
  const found = visits.filter((visit) => visit.isUpdate).length;
  const isGone = P.notBefore[place] > DATA.now;
  const rank = P.rank[place];
  holder.replaceChildren(
    backLink(),
    el("h1", { tabindex: -1, class: "url" }, outward(P.url[place])),
    facts([
      ["Updates", visits.length > 1 ? `${everyText(P.rate[place])} (λ = ${numberText(Number(P.rate[place].toPrecision(3)))} a day)` : "not known before a second visit"],
      ["p now", chanceText(P.p[place])],
      ["Last visit", agoText(P.last[place], DATA.now), P.last[place] ? ` (${dayText(P.last[place])})` : ""],
      ["Last update, τ", P.lastUpdate[place] ? `${agoText(P.lastUpdate[place], DATA.now)} (${dayText(P.lastUpdate[place])})` : "none seen"],
      ["Visits kept", numberText(visits.length)],
      ["Of these with an update", numberText(found)],
      ["Failed since", plural(P.failures[place], "attempt")],
      ["In today's plan", isGone ? `no: gone, left alone until ${dayText(P.notBefore[place])}` : rank === null ? "no" : `yes, as number ${numberText(rank + 1)}`],
    ]),
    visits.length ? "" : el("p", { class: "empty" }, "This page has never been seen: no attempt to visit it has succeeded."),
  );
  if (!visits.length) return;
  const charts = [el("figure", { class: "wide" })];
  holder.append(el("h2", {}, "History"), charts[0]);
  visitChart(charts[0], visits);
  if (visits.length > 1) {
    charts.push(el("figure", { class: "wide" }));
    holder.append(charts[1]);
    rateChart(charts[1], visits);
  }
  const rows = el("div", { class: "table" });
  holder.append(el("h2", {}, "Visits"), rows);
  table(rows, { name: "Visits", unit: ["visit", "visits"], rows: [...visits].reverse(), text: (visit) => `${whatFound(visit)} ${momentText(visit.at)}`,
    columns: [
      ...times("Time", "When the visit was", (visit) => visit.at),
      { title: "Found", words: "What the visit showed that none before it had shown", isText: true, csv: whatFound, value: (visit) => (visit.isUpdate ? 1 + visit.links : 0), cell: whatFound },
      { title: "After", words: "Time since the visit before; CSV files have seconds", value: (visit) => (visit.number ? visit.at - visits[visit.number - 1].at : null),
        cell: (visit) => (visit.number ? durationText((visit.at - visits[visit.number - 1].at) / DAY) : NONE) },
    ] });
}

function timeAxis(seconds) {
  const [from, to] = extent([...seconds, DATA.now]);
  const pad = Math.max((to - from) * 0.02, 3600);
  const domain = [from - pad, to + pad];
  return { scale: linear, domain, ticks: (number) => timeTicks(...domain, number) };
}

function visitChart(figure, visits) {
  const most = Math.max(...visits.map((visit) => visit.links), 1);
  chart(figure, {
    title: "New links by visit",
    legend: [["tick", "visit"], ["mark s1 m0", "visit that found an update"]],
    words: "Each short stroke is a visit. A visit with an update is drawn as high as it showed links that no visit before it had shown.",
    draw: (width) => plot(width, 220, timeAxis(visits.map((visit) => visit.at)),
      { scale: linear, domain: [-most * 0.12, most * 1.08], ticks: wholeTicks(most, 4) }, "",
      (out, px, py, box) => {
        for (const visit of visits) {
          const words = `${momentText(visit.at)}: ${whatFound(visit)}`;
          const x = px(visit.at);
          out.append(svg("line", { x1: x, x2: x, y1: box.bottom, y2: py(0), class: "tick" }));
          hint(out, x, py(visit.isUpdate ? visit.links : 0), words);
          if (!visit.isUpdate) continue;
          out.append(svg("line", { x1: x, x2: x, y1: py(0), y2: py(visit.links), class: "stem s1" }));
          out.append(fill(MARKS[0](x, py(visit.links), 3.5), { class: "mark s1" }, []));
        }
      }),
  });
}

function rateChart(figure, visits) {
  const known = visits.filter((visit) => visit.rate > 0);
  const title = "Estimated time between updates, 1/λ";
  if (!known.length) {
    figure.replaceChildren(el("h3", {}, title), el("p", { class: "empty" }, "No visit has found an update, so this estimator takes λ for 0."));
    return;
  }
  const hasBand = known.some((visit) => visit.low > 0);
  const [least, most] = extent(known.flatMap((visit) => (hasBand ? [visit.low, visit.high] : [visit.rate])));
  const domain = [least / 1.3, most * 1.3];
  const ticks = INTERVALS.map(([days, text]) => [1 / days, text]).filter(([rate]) => rate >= domain[0] && rate <= domain[1]);
  chart(figure, {
    title,
    legend: [["line s0", "estimate"], ...(hasBand ? [["band s0", "90 % of the posterior"]] : [])],
    words: `What was known after each visit, under today's settings; the top is often, the bottom rarely.${hasBand ? " The band narrows as visits come in, and widens as old ones fade." : ""}`,
    draw: (width) => plot(width, 260, timeAxis(visits.map((visit) => visit.at)), { scale: logarithmic, domain, ticks }, "",
      (out, px, py) => {
        if (hasBand) {
          const upper = known.map((visit) => [px(visit.at), py(visit.high)]);
          const lower = known.map((visit) => [px(visit.at), py(visit.low)]).reverse();
          out.append(svg("path", { d: `${path([...upper, ...lower])}Z`, class: "band s0" }));
        }
        out.append(line(known.map((visit) => [px(visit.at), py(visit.rate)]), "line", 0));
        for (const visit of known)
          mark(out, [px(visit.at), py(visit.rate)], 0, `${dayText(visit.at)}: ${everyText(visit.rate)}${hasBand ? `, between ${everyText(visit.high)} and ${everyText(visit.low)}` : ""}`, 2.5);
      }),
  });
}
