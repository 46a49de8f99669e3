// The sections of the overview.

const figureOf = (name) => document.querySelector(`[data-chart="${name}"]`);
const tableOf = (name) => document.querySelector(`[data-table="${name}"]`);

function say(name, ...words) {
  document.querySelector(`[data-text="${name}"]`).replaceChildren(...words);
}

// Replace a section's figures and tables by a sentence where there is nothing to show.
function leaveEmpty(id, words) {
  const section = byId(id);
  for (const part of section.querySelectorAll("[data-chart], [data-table], .charts, h3, p.soft, p:empty")) part.remove();
  section.append(el("p", { class: "empty" }, ...[words].flat()));
}

function noPages() {
  return ["The state knows no page yet. Crawl with HACS, or record what an archive knows of pages: ", el("code", {}, "hacs import"), "."];
}

// A figure in which there is nothing to draw.
function leaveFigure(name, title, words) {
  figureOf(name).replaceChildren(el("h3", {}, title), el("p", { class: "empty" }, words));
}

function showHeader() {
  const { counts: n, plan, now } = DATA;
  say("state", `${DATA.state} · ${bothText(now)}`);
  const rate = DATA.lately.visits ? `${numberText((100 * DATA.lately.updates) / DATA.lately.visits)} % of visits found an update` : "no ranked visits then";
  byId("numbers").replaceChildren(...[
    [numberText(n.known), n.known === 1 ? "page known" : "pages known", n.waiting ? `${numberText(n.waiting)} of them gone for now` : "none of them gone"],
    [numberText(n.visited), n.visited === 1 ? "page visited" : "pages visited", `${numberText(n.evident)} twice or more`],
    [numberText(plan.expected), "updates expected in today's plan", `of ${plural(plan.size, "visit")}${plan.firsts ? `, ${numberText(plan.firsts)} of them first visits` : ""}`],
    [numberText(n.updatedLately), `pages found updated in ${DATA.lately.days} days`, rate],
  ].map(([number, title, words]) => el("div", {}, el("dt", {}, title), el("dd", {}, number), el("dd", { class: "soft" }, words))));
}

function showPlan() {
  const plan = DATA.plan;
  if (!DATA.counts.known) return leaveEmpty("plan", noPages());
  const left = [
    plan.waiting && `${numberText(plan.waiting)} gone for now`,
    plan.belowThreshold && `${numberText(plan.belowThreshold)} below the threshold of ${plan.threshold}`,
    plan.leftOut && `${numberText(plan.leftOut)} over the budget of ${numberText(plan.budget)}`,
  ].filter(Boolean);
  say("plan", `A crawl of all known pages that started now would make ${plural(plan.size, "visit")}, most promising first`,
    plan.budget === null ? " (no budget is set)" : "",
    left.length ? `. Left out: ${left.join(", ")}.` : ".",
    plan.armNames.length > 1 ? " The arms of the experiment take turns." : "",
    " p is the probability that links were added since the last visit; a page never visited has p = 1, but its first visit is only the baseline.");
  if (!plan.size) return leaveEmpty("plan", "Nothing would be visited now.");
  const { visits, expected } = plan.curve;
  const total = visits[visits.length - 1];
  const most = expected[expected.length - 1];
  const quarter = Math.ceil((visits.length - 1) / 4);
  const curveTitle = "Updates expected by number of visits";
  if (!(most > 0)) leaveFigure("curve", curveTitle, "No update is expected: the pages of the plan were never visited, or λ is 0.");
  else chart(figureOf("curve"), {
    title: curveTitle,
    legend: [["line s0", "in the plan's order"], ["dashed s2", "in any order"]],
    words: `The first ${visits[quarter] === 1 ? "visit" : plural(visits[quarter], "visit")} would find ${percentText(expected[quarter] / most)} of the ${plural(plan.expected, "update")} expected.`,
    draw: (width) => plot(width, 240, { scale: linear, domain: [0, total], ticks: (number) => wholeTicks(total, number) },
      { scale: linear, domain: [0, most * 1.05], ticks: (number) => roundTicks(0, most * 1.05, number) }, "visits",
      (out, px, py) => {
        out.append(line([[px(0), py(0)], [px(total), py(most)]], "dashed", 2));
        out.append(line(visits.map((number, place) => [px(number), py(expected[place])]), "line", 0));
        visits.forEach((number, place) => hint(out, px(number), py(expected[place]),
          `${plural(number, "visit")}: ${numberText(Number(expected[place].toPrecision(4)))} updates expected`));
      }),
  });
  const bins = plan.chances;
  const high = Math.max(...bins, 1);
  if (!bins.some(Boolean)) leaveFigure("chances", "Pages of the plan by p", "None of them was visited before.");
  else chart(figureOf("chances"), {
    title: "Pages of the plan by p",
    words: `Pages never visited are not counted.${plan.budget === null ? "" : " Many pages on the right mean that a larger budget would pay."}`,
    draw: (width) => plot(width, 240, { scale: linear, domain: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((p) => [p, String(p)]) },
      { scale: linear, domain: [0, high * 1.05], ticks: (number) => wholeTicks(high * 1.05, number) }, "p",
      (out, px, py, box) => bins.forEach((number, place) => {
        const [from, to] = [place / bins.length, (place + 1) / bins.length];
        if (number) bar(out, px(from) + 1, py(number), px(to) - px(from) - 2, box.bottom - py(number), 0, `p from ${from.toFixed(2)} to ${to.toFixed(2)}: ${plural(number, "page")}`);
      })),
  });
  const rows = plan.pages.map((page, place) => ({ page, place, p: plan.p[place], rate: plan.rate[place], arm: plan.armNames[plan.arms[place]] }));
  const hasArms = plan.armNames.length > 1;
  table(tableOf("plan"), { name: "Today's plan", key: "plan", unit: ["page", "pages"], rows, sortedBy: 0, direction: "ascending",
    text: (row) => `${P.url[row.page]} ${row.arm}`,
    columns: [
      { title: "#", words: "The place in the plan", first: "ascending", value: (row) => row.place, csv: (row) => row.place + 1, cell: (row) => numberText(row.place + 1) },
      PAGE,
      ...(hasArms ? [{ title: "Arm", words: "The arm of the experiment that the page's site is in", isText: true, value: (row) => row.arm, cell: (row) => row.arm }] : []),
      CHANCE, RATE, LAST_VISIT, LAST_UPDATE, VISITS, UPDATES, FAILURES,
    ] });
}

// Points of one series over the runs: [[start, value], …].
function overRuns(series, value) {
  const { run } = DATA.runs;
  return run.map((_, place) => place).filter((place) => DATA.runs.series[place] === series)
    .map((place) => [run[place], value(place)]);
}

// The mean of each point and the `number` - 1 before it.
function trailing(points, number) {
  return points.map(([at], place) => {
    const some = points.slice(Math.max(0, place - number + 1), place + 1).map((point) => point[1]).filter(Number.isFinite);
    return [at, some.length ? some.reduce((sum, one) => sum + one, 0) / some.length : NaN];
  });
}

function runsChart(name, { title, words, value, predicted = null, isSum = false, smooth = 1 }) {
  const { names, run } = DATA.runs;
  const summed = (points) => {
    let sum = 0;
    return isSum ? points.map(([at, number]) => [at, (sum += number)]) : points;
  };
  const found = names.map((_, series) => summed(overRuns(series, value)));
  const expected = predicted ? names.map((_, series) => summed(overRuns(series, predicted))) : [];
  const most = Math.max(...[...found, ...expected].flat().map(([, number]) => number).filter(Number.isFinite), 1e-9) * 1.06;
  chart(figureOf(name), {
    title, words,
    legend: names.flatMap((text, series) => [[`line s${series % 4} m${series % 4}`, predicted ? `${text}, found` : text],
      ...(predicted ? [[`dashed s${series % 4}`, `${text}, predicted`]] : [])]),
    draw: (width) => {
      const [from, to] = extent(run);
      const pad = Math.max((to - from) * 0.02, 3600);
      const domain = [from - pad, to + pad];
      return plot(width, 240, { scale: linear, domain, ticks: (number) => timeTicks(...domain, number) },
        { scale: linear, domain: [0, most], ticks: (number) => roundTicks(0, most, number) }, "",
        (out, px, py) => {
          const placed = (points) => points.map(([at, number]) => [px(at), py(number)]);
          expected.forEach((points, series) => out.append(line(placed(points), "dashed", series % 4)));
          found.forEach((points, series) => {
            out.append(line(placed(trailing(points, smooth)), "line", series % 4));
            const step = smooth > 1 ? 1 : Math.ceil(points.length / (width / 20));
            points.forEach(([at, number], place) => {
              if (!Number.isFinite(number)) return;
              const rounded = (value) => numberText(Number(value.toFixed(1)));
              const words = `${momentText(at)}, ${names[series]}: ${rounded(number)}${predicted ? ` found, ${rounded(expected[series][place][1])} predicted` : ""}`;
              const point = [px(at), py(number)];
              if (place % step === 0) mark(out, point, series % 4, words, smooth > 1 ? 2 : 2.6);
              else hint(out, ...point, words);
            });
          });
        });
    },
  });
}

function showRuns() {
  const runs = DATA.runs;
  if (!runs.run.length) return leaveEmpty("runs", ["No ranked visit has been recorded yet. Every ", el("code", {}, "scrapy crawl"), " under HACS adds a run here."]);
  const number = new Set(runs.run).size;
  say("runs", runs.total > number ? `The latest ${numberText(number)} of ${numberText(runs.total)} runs.` : `${plural(number, "run")}.`,
    " Counted are the visits of ranked seeds, not pages that a spider followed from there.");
  const known = (place) => runs.visits[place] - runs.firsts[place];
  const smooth = number > 20 ? 7 : 1;
  runsChart("yield", { title: "Updates found in 100 visits", smooth,
    words: `${smooth > 1 ? `Points are runs, lines the mean of ${smooth} runs` : "By run"}; first visits are left out, for they can find none. Higher is better.`,
    value: (place) => (known(place) ? (100 * runs.updates[place]) / known(place) : NaN) });
  runsChart("sums", { title: "Updates found, and predicted, up to each run", isSum: true,
    words: "Summed over the runs. Predicted is the sum of p of the visits made: where it keeps apart from what was found, p is too high or too low.",
    value: (place) => runs.updates[place], predicted: (place) => runs.predicted[place] });
  runsChart("links", { title: "New links found, up to each run", isSum: true, words: "Summed over the runs: links that no visit before had shown.",
    value: (place) => runs.newLinks[place] });
  runsChart("visits", { title: "Visits in each run", words: "Of ranked seeds, whether they brought an answer or not.", value: (place) => runs.visits[place] });
  const rows = runs.run.map((_, place) => place).reverse();
  const counted = (title, words, values, text = numberText) => ({ title, words, value: (place) => values[place], cell: (place) => text(values[place]) });
  const hasArms = runs.names.length > 1;
  table(tableOf("runs"), { name: "Runs", key: "runs", unit: hasArms ? ["run of an arm", "runs by arm"] : ["run", "runs"], rows, text: (place) => `${runs.names[runs.series[place]]} ${momentText(runs.run[place])}`,
    columns: [
      ...times("Start", "When the run began", (place) => runs.run[place]),
      { words: "What ranked the visits; a run has a row for each", title: hasArms ? "Arm" : "Policy", isText: true, value: (place) => runs.names[runs.series[place]], cell: (place) => runs.names[runs.series[place]] },
      counted("Visits", "Visits of ranked seeds", runs.visits),
      counted("First", "Visits that saw a page for the first time", runs.firsts),
      counted("Unseen", "Visits that did not see the page", runs.unseen),
      counted("Updates", "Visits that found an update", runs.updates),
      counted("New to the site", "Visits that found a link that no page of the site had shown", runs.siteUpdates),
      counted("Predicted", "The sum of p of visits that saw a page known before", runs.predicted),
      { title: "In 100", words: "Updates in 100 visits, first visits left out", value: (place) => (known(place) ? runs.updates[place] / known(place) : null),
        cell: (place) => (known(place) ? numberText((100 * runs.updates[place]) / known(place)) : NONE) },
      counted("New links", "Links that no visit before had shown", runs.newLinks),
      counted("Size", "Of the answers; CSV files have bytes", runs.bytes, sizeText),
    ] });
}

const INTERVALS_TITLE = "How often pages are updated";
const EVIDENCE_TITLE = "Evidence: visits and updates found, by page";

function showPages() {
  const n = DATA.counts;
  if (!n.known) return leaveEmpty("pages", noPages());
  say("pages", `${plural(n.known, "page")} known: ${numberText(n.visited)} seen, ${numberText(n.evident)} of them twice or more, so that their λ rests on evidence.`,
    n.failing ? ` The last attempt failed for ${numberText(n.failing)}.` : "");
  if (n.evident) showIntervals();
  else leaveFigure("intervals", INTERVALS_TITLE, "No page has been visited twice yet, so no interval is known.");
  if (n.visited) showEvidence();
  else leaveFigure("evidence", EVIDENCE_TITLE, "No page has been seen yet.");
  if (DATA.hubs) showHubs();
  else figureOf("hubs").remove();
  const lists = DATA.lists;
  const tables = [
    ["slowest", "Slowest pages", [RATE, CHANCE, LAST_VISIT, LAST_UPDATE, VISITS, UPDATES], "No page has been visited twice yet."],
    ["quietest", "Quiet for longest", [QUIET, RATE, LAST_VISIT, LAST_UPDATE, VISITS, UPDATES], "No page has been watched without an update yet."],
    ["churning", "Pages that churn", [CHURN, RATE, CHANCE, LAST_VISIT, VISITS, UPDATES], "No page shows new links at every request."],
    ["gone", "Gone pages", [GONE, UNTIL, LAST_VISIT, VISITS, UPDATES], "No page is gone."],
  ];
  for (const [key, name, columns, empty] of tables) {
    if (lists[key].length) pageTable(tableOf(key), key, name, lists[key], columns);
    else tableOf(key).replaceChildren(el("p", { class: "empty" }, empty));
  }
}

function showIntervals() {
  const { edges, estimated, observed, unmoved, gaps, sampled } = DATA.intervals;
  const share = (counts) => {
    const sum = counts.reduce((total, number) => total + number, 0);
    return counts.map((number) => (sum ? number / sum : 0));
  };
  const [bars, steps] = [share(estimated), share(observed)];
  const filled = edges.slice(0, -1).map((_, place) => place).filter((place) => estimated[place] || observed[place]);
  if (!filled.length) {
    leaveFigure("intervals", INTERVALS_TITLE, "No update has been found yet.");
    return;
  }
  const [first, last] = [Math.max(filled[0] - 1, 0), Math.min(filled[filled.length - 1] + 2, edges.length - 1)];
  const domain = [edges[first], edges[last]];
  const most = Math.max(...bars, ...steps) * 1.08;
  chart(figureOf("intervals"), {
    title: INTERVALS_TITLE,
    legend: [["bar s0", "estimated, 1/λ: pages"], ...(gaps ? [["line s1", "observed between updates: gaps"]] : [])],
    words: [`Share of pages by their estimate`, gaps ? `, and of the gaps between updates that visits found (${numberText(gaps)} gaps of ${plural(sampled, "page")}, at random). Observed gaps are never shorter than those between visits, and pages updated often have more of them.` : ".",
      unmoved ? ` ${plural(unmoved, "page")} without any update are not shown.` : ""],
    draw: (width) => plot(width, 260, { scale: logarithmic, domain, ticks: INTERVALS.filter(([days]) => days >= domain[0] && days <= domain[1]) },
      { scale: linear, domain: [0, most], ticks: (number) => roundTicks(0, 100 * most, number).map(([value, text]) => [value / 100, `${text} %`]) }, "time between updates",
      (out, px, py, box) => {
        for (let place = first; place < last; place += 1) {
          const [from, to] = [px(edges[place]), px(edges[place + 1])];
          const words = `${durationText(edges[place])} to ${durationText(edges[place + 1])}: ${plural(estimated[place], "page")}, ${plural(observed[place], "gap")}`;
          if (estimated[place]) bar(out, from + 0.75, py(bars[place]), to - from - 1.5, box.bottom - py(bars[place]), 0, words);
          else if (observed[place]) hint(out, (from + to) / 2, py(steps[place]), words);
        }
        if (!gaps) return;
        const outline = [];
        for (let place = first; place < last; place += 1)
          outline.push([px(edges[place]), py(steps[place])], [px(edges[place + 1]), py(steps[place])]);
        out.append(line(outline, "line", 1));
      }),
  });
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 0 });

function classTexts(starts) {
  return starts.map((from, place) => {
    if (place === starts.length - 1) return `${from}+`;
    const to = starts[place + 1] - 1;
    return to === from ? String(from) : `${from}–${to}`;
  });
}

function showEvidence() {
  const { visits, updates, counts } = DATA.evidence;
  const used = (sums) => sums.reduce((last, number, place) => (number ? place + 1 : last), 1);
  const columns = used(counts.map((row) => row.reduce((sum, number) => sum + number, 0)));
  const rows = used(updates.map((_, place) => counts.reduce((sum, row) => sum + row[place], 0)));
  const [xTexts, yTexts] = [classTexts(visits), classTexts(updates)];
  const most = Math.max(...counts.flat());
  chart(figureOf("evidence"), {
    title: EVIDENCE_TITLE,
    byBoth: true,
    words: "How many pages have had so many visits (across), of which so many found an update (up). λ is uncertain on the left, and rests on the prior at the bottom left.",
    draw: (width) => {
      const ticks = (texts, number) => texts.slice(0, number).map((text, place) => [place + 0.5, text]);
      return plot(width, Math.min(260, 60 + 36 * rows), { scale: linear, domain: [0, columns], ticks: ticks(xTexts, columns) },
        { scale: linear, domain: [0, rows], ticks: ticks(yTexts, rows) }, "visits",
        (out, px, py) => {
          out.querySelectorAll(".grid").forEach((one) => one.remove());
          for (let x = 0; x < columns; x += 1) for (let y = 0; y < rows; y += 1) {
            const number = counts[x][y];
            if (!number) continue;
            const cell = { x: px(x) + 1, y: py(y + 1) + 1, width: px(x + 1) - px(x) - 2, height: py(y) - py(y + 1) - 2 };
            const words = `${plural(number, "page")} with ${xTexts[x]} ${xTexts[x] === "1" ? "visit" : "visits"} and ${yTexts[y]} ${yTexts[y] === "1" ? "update" : "updates"}`;
            out.append(svg("rect", { ...cell, rx: 2, class: "cell", "fill-opacity": (0.08 + (0.42 * Math.log(1 + number)) / Math.log(1 + most)).toFixed(3) }));
            hint(out, cell.x + cell.width / 2, cell.y + cell.height / 2, words);
            const text = compact.format(number);
            if (textPx(text) < cell.width && cell.height > FONT_PX)
              out.append(svg("text", { x: cell.x + cell.width / 2, y: cell.y + cell.height / 2 + 4, "text-anchor": "middle", class: "count" }, text));
          }
        });
    },
  });
}

function showHubs() {
  const { days, urls, left } = DATA.hubs;
  const domain = [days[0], days[days.length - 1]];
  chart(figureOf("hubs"), {
    title: "How interest in new links of hubs fades",
    legend: urls.map((url, series) => [`line s${series}`, urlText(url)]),
    words: "Share of the interest in a link that is left so long after it appeared, by the curves in the list of HACS_INSTANT: the hubs that stand first there.",
    draw: (width) => plot(width, 260, { scale: logarithmic, domain, ticks: INTERVALS.filter(([at]) => at >= domain[0] && at <= domain[1]) },
      { scale: linear, domain: [0, 1], ticks: (number) => roundTicks(0, 100, number).map(([value, text]) => [value / 100, `${text} %`]) }, "age of the link",
      (out, px, py) => left.forEach((shares, series) => {
        out.append(line(shares.map((share, place) => [px(days[place]), py(share)]), "line", series));
        shares.forEach((share, place) => {
          if (place % 8 === 0) hint(out, px(days[place]), py(share), `${urls[series]}: ${numberText(100 * share)} % left after ${durationText(days[place])}`);
        });
      })),
  });
}

function showSignals() {
  const rows = DATA.signals;
  if (!rows.length) return leaveEmpty("signals", ["No sitemap, feed or ping has been read yet: ", el("code", {}, "HACS_SIGNALS"), " has crawls read them."]);
  say("signals", "What was learned of each source from the visits of its pages. A signal counts as far as its source was right.");
  const counted = (title, words, name, text = numberText) => ({ title, words, value: (row) => row[name], cell: (row) => text(row[name]) });
  table(tableOf("signals"), { name: "Sources of signals", key: "signals", unit: ["source", "sources"], rows, text: (row) => `${row.host} ${row.kind}`,
    columns: [
      { title: "Host", words: "Where the source is", isText: true, value: (row) => row.host, cell: (row) => row.host },
      { title: "Kind", words: "A sitemap, a feed, or pings", isText: true, value: (row) => row.kind, cell: (row) => row.kind },
      ...times("Read", "When it was last read", (row) => row.read),
      counted("Pages", "Visited pages that it lists", "pages"),
      counted("Visits", "From which it was learned; old ones fade", "gaps"),
      counted("Signalled", "Of 100 updates so many are signalled", "recall", (share) => numberText(100 * share)),
      counted("False a page-day", "Signals without an update", "falsePerDay"),
      counted("Late by days", "The mean delay of a true signal", "delayDays"),
    ] });
}

function showState() {
  const { counts: n, size } = DATA;
  byId("facts").replaceChildren(facts([
    ["State", DATA.state],
    ["Size", sizeText(size.bytes), n.known ? ` (${sizeText(size.bytes / n.known)} a page)` : ""],
    ["Pages", numberText(n.known)],
    ["Outcome records", `${numberText(size.outcomes)} of at most ${numberText(size.mostOutcomes)}`],
    ["Sites' pages updated together", DATA.together === null ? "siblings do not count" : numberText(DATA.together)],
    ["Version", DATA.version],
  ]));
  byId("settings").replaceChildren(facts(DATA.settings.map(([name, value]) => [name, el("code", {}, value)])));
}

