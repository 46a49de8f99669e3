// The experiment and the calibration: how far what was found bears out what was expected.

const MODEL_WORDS = " Visits are grouped by what ranked them and by the model that p was made of.";

function showCalibration() {
  const parts = DATA.calibration;
  if (!parts.length) return leaveEmpty("calibration", "No visit of a page known before has been recorded yet, so there is nothing to compare p with.");
  say("calibration", "Of visits made with p = 0.3, three in ten should find an update. A curve above the diagonal means that p is too low, one below that it is too high.",
    parts.length > 1 ? MODEL_WORDS : "", " ", el("code", {}, "hacs calibrate"), " fits a correction.");
  const box = document.querySelector("#calibration .charts");
  box.replaceChildren();
  const most = Math.max(...parts.flatMap(({ bins }) => [...bins.mean_p, ...bins.upper]));
  const end = [0.1, 0.2, 0.4, 0.6, 0.8].find((p) => p >= most) ?? 1;
  for (const [place, part] of parts.entries()) {
    const figure = el("figure");
    box.append(figure);
    reliabilityChart(figure, part, place % 4, end);
  }
  const score = (name) => (part) => part.score[name];
  const number = (title, words, name, text) => ({ title, words, value: score(name), cell: (part) => text(part.score[name]) });
  const digits = (value) => (value === null ? NONE : value.toFixed(3));
  table(tableOf("calibration"), { name: "Scores of predictions", key: "calibration", unit: ["group", "groups"], rows: parts, text: (part) => `${part.policy} ${part.model}`,
    columns: [
      { title: "Policy", words: "What ranked the visits", isText: true, value: (part) => part.policy, cell: (part) => part.policy },
      { title: "Model", words: "What p was made of", isText: true, value: (part) => part.model, cell: (part) => part.model },
      number("Visits", "Visits of pages known before", "visits", numberText),
      number("Predicted", "The sum of p", "expected_updates", numberText),
      number("Found", "Visits that found an update", "found_updates", numberText),
      number("Brier", "Mean of (p − found)²; lower is better", "brier", digits),
      number("Brier of base rate", "The Brier score of saying the same share for every visit", "base_brier", digits),
      number("Log loss", "Mean of −ln of the probability given to what happened; lower is better", "log_loss", digits),
      number("Log loss of base rate", "The log loss of saying the same share for every visit", "base_log_loss", digits),
    ] });
}

function reliabilityChart(figure, part, series, end) {
  const { bins, score } = part;
  const skill = score.brier_skill;
  const verdict = skill === null ? "" : skill > 0.005 ? ` Its Brier score is ${percentText(skill)} better than the base rate's.`
    : skill < -0.005 ? ` Its Brier score is ${percentText(-skill)} worse than the base rate's.` : " Its Brier score is that of the base rate.";
  chart(figure, {
    title: `${part.policy}: predicted and found`,
    legend: [[`mark s${series} m${series}`, "share found, with 95 % interval"], ["dashed s2", "as predicted"]],
    words: `${part.model}. ${plural(score.visits, "visit")}: ${numberText(score.expected_updates)} updates predicted, ${numberText(score.found_updates)} found.${verdict}`,
    draw: (width) => plot(width, Math.min(320, width * 0.8), { scale: linear, domain: [0, end], ticks: (number) => roundTicks(0, end, number) },
      { scale: linear, domain: [0, end], ticks: (number) => roundTicks(0, end, number) }, "p, mean of each tenth of the visits",
      (out, px, py) => {
        out.append(line([[px(0), py(0)], [px(end), py(end)]], "dashed", 2));
        const points = bins.mean_p.map((p, place) => [px(p), py(bins.found_share[place])]);
        bins.mean_p.forEach((p, place) => out.append(svg("line", { x1: px(p), x2: px(p), y1: py(bins.lower[place]), y2: py(bins.upper[place]), class: `stem s${series}` })));
        out.append(line(points, "thin", series));
        points.forEach((point, place) => mark(out, point, series,
          `p from ${chanceText(bins.low_p[place])} to ${chanceText(bins.high_p[place])}: ${percentText(bins.found_share[place])} of ${plural(bins.visits[place], "visit")}, between ${percentText(bins.lower[place])} and ${percentText(bins.upper[place])}`, 3.5));
      }),
  });
}

function showExperiment() {
  const told = DATA.experiment;
  if (!told) {
    byId("experiment").remove();
    return document.querySelector('nav [href="#experiment"]').remove();
  }
  if (!told.first_visit) return leaveEmpty("experiment", "The experiment is on, but no visit of it has been recorded yet.");
  say("experiment",
    el("p", {}, `From ${dayText(told.first_visit)} to ${dayText(told.last_visit)}. Pages are assigned by site; ${told.control} is the control. The intervals allow for updates that the pages of a site share.`),
    ...told.words.map(([first, ...others]) => el("p", { class: "verdict" }, el("strong", {}, first), ` ${others.join(" ").replaceAll(" %", "\u00a0%")}`)));
  const box = document.querySelector("#experiment .charts");
  for (const one of told.comparisons) {
    if (!one.looks.length) continue;
    const figure = el("figure", { class: "wide" });
    box.append(figure);
    looksChart(figure, one);
  }
  const known = (value, text) => (arm) => (arm[value] === null ? NONE : text(arm[value]));
  const column = (title, words, name, text = numberText) => ({ title, words, value: (arm) => arm[name], cell: known(name, text) });
  table(tableOf("experiment"), { name: "Arms", key: "arms", unit: ["arm", "arms"], rows: told.arms, text: (arm) => arm.arm,
    columns: [
      { title: "Arm", words: "What ranks the pages of its sites", isText: true, value: (arm) => arm.arm, cell: (arm) => arm.arm },
      column("Share", "Of sites and budget", "share", percentText),
      column("Pages", "Pages of its sites that the state has seen", "pages"),
      column("Visits", "All attempts", "visits"),
      column("Updates", "Visits that found an update", "updates"),
      column("New to the site", "Visits that found a link that no page of the site had shown", "site_updates"),
      column("In 100", "Updates in 100 visits, first visits left out", "updates_per_100_visits"),
      column("Links a visit", "New links, first visits left out", "new_links_per_visit"),
      column("Size an update", "Bytes of answers for each update found", "bytes_per_update", sizeText),
      column("Last visit before", "Mean time since the last visit", "mean_days_since_visit", durationText),
      column("Fresh", "Estimated share of its pages without an update that was not seen yet", "freshness", percentText),
      column("Delay", "Estimated mean time from an update to the visit that found it", "delay_days", durationText),
    ] });
}

function looksChart(figure, one) {
  const looks = one.looks.filter((look) => look.ratio !== null && look.low > 0 && look.high !== null);
  if (!looks.length) return figure.remove();
  const [least, most] = [Math.max(Math.min(...looks.map((look) => look.low), 0.8), 0.1), Math.min(Math.max(...looks.map((look) => look.high), 1.25), 10)];
  const ticks = [0.1, 0.2, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10].filter((ratio) => ratio >= least && ratio <= most).map((ratio) => [ratio, `× ${ratio}`]);
  const [from, to] = extent(looks.map((look) => look.at));
  const pad = Math.max((to - from) * 0.02, 3600);
  const domain = [from - pad, to + pad];
  const held = (ratio) => Math.min(Math.max(ratio, least), most);
  chart(figure, {
    title: `Updates a visit, ${one.arm} to ${one.control}`,
    legend: [["line s0", "ratio, adjusted for how often the sites were updated before"], ["band s0", `anytime-valid interval, ${percentText(1 - one.alpha)}`]],
    words: "As it could be seen at the end of each day. × 1 is no difference; once the band has left that line, one is established.",
    draw: (width) => plot(width, 240, { scale: linear, domain, ticks: (number) => timeTicks(...domain, number) },
      { scale: logarithmic, domain: [least, most], ticks }, "",
      (out, px, py, box) => {
        const upper = looks.map((look) => [px(look.at), py(held(look.high))]);
        const lower = looks.map((look) => [px(look.at), py(held(look.low))]).reverse();
        out.append(svg("path", { d: `${path([...upper, ...lower])}Z`, class: "band s0" }));
        out.append(svg("line", { x1: box.left, x2: box.right, y1: py(1), y2: py(1), class: "dashed s2" }));
        out.append(line(looks.map((look) => [px(look.at), py(held(look.ratio))]), "line", 0));
        for (const look of looks) mark(out, [px(look.at), py(held(look.ratio))], 0,
          `${dayText(look.at)}, ${plural(look.visits, "visit")}: × ${numberText(look.ratio)}, between ${numberText(look.low)} and ${numberText(look.high)}`, 2.2);
      }),
  });
}
