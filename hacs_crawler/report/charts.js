// The charts: what each is made of. Observable Plot draws them.

const COLORS = ["var(--s0)", "var(--s1)", "var(--s2)", "var(--s3)"];
const DURATIONS = new Map([[1 / 1440, "1 minute"], [1 / 24, "1 hour"], [1, "1 day"], [7, "1 week"], [30.44, "1 month"], [365.25, "1 year"], [3652.5, "10 years"]]);
const TIP = { maxRadius: 500 };
const UTC = { type: "utc", label: "UTC", labelOffset: 42, insetLeft: 8, insetRight: 8 };

const at = (seconds) => new Date(1000 * seconds);

// Columns as rows.
function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, place) => Object.fromEntries(names.map((name) => [name, columns[name][place]])));
}

// Add a figure that is drawn as wide as it is shown; `without` says what has to happen before it can be.
function chart(holder, { title, words = "", without = "", names = [], ...options }) {
  const drawing = el("div", { role: "img", "aria-label": [title, ...names].join(", ") });
  const figure = el("figure", {}, el("h3", {}, title), drawing, el("figcaption", {}, words));
  holder.append(figure);
  if (without) return figure.replaceChildren(el("h3", {}, title), paragraph(without, "empty"));
  const color = names.length ? { domain: names, range: names.map((_, place) => COLORS[place % 4]), legend: names.length > 1, label: "of" } : {};
  let width = 0;
  new ResizeObserver(() => {
    if (drawing.clientWidth === width || !drawing.clientWidth) return;
    width = drawing.clientWidth;
    drawing.replaceChildren(Plot.plot({ width, height: 270, marginTop: 28, marginLeft: 48, marginBottom: 46, className: "plot", color, ...options }));
    drawing.firstChild.setAttribute("aria-hidden", "true"); // its parts have labels that no reader is to read
  }).observe(drawing);
}

// Ticks where only whole numbers mean something.
const whole = (most) => ({ domain: [0, Math.max(most, 1)], ticks: d3.ticks(0, most, 5).filter(Number.isInteger), tickFormat: ",d" });

const RUNS = rowsOf(DATA.charts.runs).map((run) => ({ ...run, at: at(run.at), known: run.visits - run.firsts, per100: run.visits > run.firsts ? (100 * run.updates) / (run.visits - run.firsts) : NaN }));
const SERIES = [...new Set(RUNS.map((run) => run.name))];

function overRuns(holder, title, words, label, channel, more = []) {
  if (!DATA.hasRunCharts) return;
  const starts = new Set(RUNS.map((run) => Number(run.at)));
  const known = RUNS.filter((run) => run.known);
  const without = !RUNS.length ? "No run yet: each `scrapy crawl` under HACS adds one."
    : starts.size < 2 ? "One run so far: the chart begins with the second."
      : !known.length ? "Every visit so far was a page's first, its baseline: the chart begins with the next run." : "";
  chart(holder, { title, words, without, names: SERIES, x: UTC, y: { label, grid: true, zero: true, nice: true },
    marks: [Plot.ruleY([0]), ...more, Plot.lineY(RUNS, { x: "at", stroke: "name", marker: "dot", tip: TIP, ...channel })] });
}

function runsCharts(holder) {
  const summed = (y, options = {}) => Plot.mapY("cumsum", { x: "at", y, z: "name", stroke: "name", ...options });
  overRuns(holder, "Updates found and predicted on ranked pages, summed over the runs", "Dashed is what was predicted. Where the lines part, p is too high or too low.", "updates",
    summed("updates"), [Plot.lineY(RUNS, summed("predicted", { strokeDasharray: "5 4" }))]);
  overRuns(holder, `New ${DATA.marks} on ranked pages, summed over the runs`, "Counted are those that the visits before had not shown.", DATA.marks, summed("links"));
  overRuns(holder, "Visits to ranked pages in each run", "Requests that did not show their page are not counted, nor are pages that a spider follows unranked.", "visits", { y: "visits" });
}

const yieldChart = (holder) => overRuns(holder, "Updates found per 100 visits", "By run, of the visits that HACS ranked; first visits are left out, for they can find none.", "updates per 100 visits", { y: "per100" });

function planCharts(holder) {
  const curve = rowsOf(DATA.charts.plan);
  const most = d3.max(curve, (point) => point.visits) ?? 0;
  chart(holder, { title: "Updates expected by number of visits", words: "In the order of the plan.",
    without: curve.some((point) => point.expected >= 0.5) ? "" : "Hardly any update is to be expected yet: pages have to be seen, and time has to pass.",
    x: { label: "visits", ...whole(most) }, y: { label: "updates expected", grid: true, nice: true },
    marks: [Plot.ruleY([0]), Plot.lineY(curve, { x: "visits", y: "expected", stroke: COLORS[0], tip: TIP })] });
  const bins = DATA.charts.chances.map((pages, place) => ({ from: place / 20, to: (place + 1) / 20, pages }));
  chart(holder, { title: "Pages of the plan by p", words: "Pages never seen are left out.", without: d3.sum(bins, (bin) => bin.pages) ? "" : "No page of the plan has been seen yet.",
    x: { label: "p", domain: [0, 1] }, y: { label: "pages", grid: true, ...whole(d3.max(bins, (bin) => bin.pages)) },
    marks: [Plot.ruleY([0]), Plot.rectY(bins, { x1: "from", x2: "to", y: "pages", fill: COLORS[0], tip: TIP })] });
}

function rateChart(holder) {
  const { edges, pages } = DATA.charts.intervals;
  const bins = pages.map((number, place) => ({ from: edges[place], to: edges[place + 1], pages: number })).filter((bin) => bin.pages);
  const [from, to] = [d3.min(bins, (bin) => bin.from) / 2, d3.max(bins, (bin) => bin.to) * 2];
  const ticks = [...DURATIONS.keys()].filter((days) => days >= from && days <= to);
  chart(holder, { title: "Estimated time between updates", words: "Of pages seen twice or more.", without: bins.length ? "" : "No page has been seen twice yet.",
    x: { type: "log", domain: [from, to], label: "time between updates" }, y: { label: "pages", grid: true, ...whole(d3.max(bins, (bin) => bin.pages)) },
    marks: [Plot.ruleY([0]), Plot.axisX(ticks, { text: (days) => DURATIONS.get(days) }), Plot.rectY(bins, { x1: "from", x2: "to", y: "pages", fill: COLORS[0], tip: { ...TIP, format: { x1: durationText, x2: durationText } } })] });
}

function calibrationCharts(holder) {
  for (const { title, words, ...bins } of DATA.charts.calibration) {
    const points = rowsOf(bins);
    const most = d3.max(points, (point) => Math.max(point.mean_p, point.upper));
    const axis = { domain: [0, Math.min(1.25 * most, 1)], grid: true };
    chart(holder, { title, words: `${words} A tenth of the visits each, with 95 % intervals.`, x: { ...axis, label: "p" }, y: { ...axis, label: "share of visits with an update" },
      marks: [Plot.line([[0, 0], [axis.domain[1], axis.domain[1]]], { stroke: COLORS[2], strokeDasharray: "5 4" }), Plot.ruleX(points, { x: "mean_p", y1: "lower", y2: "upper", stroke: COLORS[0] }),
        Plot.dot(points, { x: "mean_p", y: "found_share", fill: COLORS[0], r: 4, tip: TIP })] });
  }
}

// The visits of a page.
function pageChart(holder, history) {
  let second = 0;
  const visits = history.at.map((step) => ({ at: at(second += step), links: 0, what: "visit" }));
  history.updates.forEach((number, place) => Object.assign(visits[number], { links: history.links[place], what: "visit with an update" }));
  chart(holder, { title: `New ${DATA.marks} by visit`, names: ["visit", "visit with an update"], without: visits.length ? "" : "No attempt to visit this page has succeeded yet.",
    x: UTC, y: { label: `new ${DATA.marks}`, grid: true, ...whole(d3.max(visits, (visit) => visit.links) || 1), zero: true },
    marks: [Plot.ruleX(visits, { x: "at", y: "links", stroke: "what" }), Plot.dot(visits, { x: "at", y: "links", fill: "what", r: 3, tip: TIP })] });
}
