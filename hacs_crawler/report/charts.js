// Charts: inline SVG, drawn for the width that there is, and drawn again when that changes.

const FONT_PX = 12;
const MARKS = [
  (x, y, r) => svg("circle", { cx: x, cy: y, r }),
  (x, y, r) => svg("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
  (x, y, r) => svg("path", { d: `M${x},${y - 1.3 * r}L${x + 1.3 * r},${y + r}H${x - 1.3 * r}Z` }),
  (x, y, r) => svg("path", { d: `M${x},${y - 1.4 * r}L${x + 1.4 * r},${y}L${x},${y + 1.4 * r}L${x - 1.4 * r},${y}Z` }),
];

const redraws = new Map(); // by holder: what draws it again, in a given width or that which it has
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) redraws.get(target)?.();
});
const PRINTED_PX = [340, 720]; // of a half and of a whole line of a sheet

addEventListener("beforeprint", () => {
  for (const [holder, redraw] of redraws) redraw(PRINTED_PX[Number(holder.closest(".wide") !== null)]);
});
addEventListener("afterprint", () => {
  for (const redraw of redraws.values()) redraw();
});

// Fill `figure` with a title, a legend, a drawing and words below it. `draw(width)` returns an SVG.
function chart(figure, { title, legend = [], words, draw, byBoth = false }) {
  const holder = el("div", { class: "drawing" });
  listen(holder, byBoth);
  let drawn = 0;
  const redraw = (width = Math.round(holder.clientWidth)) => {
    if (width === drawn || width < 50) return;
    drawn = width;
    const drawing = draw(width);
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", title);
    holder.replaceChildren(drawing);
  };
  figure.replaceChildren(
    el("h3", {}, title),
    el(legend.length ? "ul" : "div", { class: "legend" }, legend.map(([kind, text]) =>
      el("li", {}, sample(kind), text))),
    holder,
    el("figcaption", {}, ...[words].flat()),
  );
  for (const old of redraws.keys()) if (!old.isConnected) redraws.delete(old);
  redraws.set(holder, redraw);
  observer.observe(holder);
  redraw();
}

// What stands for a series in a legend: "line s0", "dashed s1", "bar s0", "mark s0 m0".
function sample(kind) {
  const classes = kind.split(" ");
  const mark = classes.find((one) => /^m\d$/.test(one));
  const parts = [];
  if (classes[0] === "bar" || classes[0] === "band")
    parts.push(svg("rect", { x: 1, y: 3, width: 18, height: 8, class: classes[0] }));
  else if (classes[0] === "tick") parts.push(svg("line", { x1: 10, x2: 10, y1: 1, y2: 13, class: "tick" }));
  else if (classes[0] !== "mark") parts.push(svg("line", { x1: 0, x2: 20, y1: 7, y2: 7, class: classes[0] }));
  if (mark) parts.push(fill(MARKS[mark[1]](10, 7, 3.5), { class: "mark" }, []));
  return svg("svg", { class: `sample ${classes.slice(1).join(" ")}`, width: 20, height: 14, "aria-hidden": "true" }, parts);
}

function linear([from, to], [start, end]) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

function logarithmic([from, to], range) {
  const inner = linear([Math.log(from), Math.log(to)], range);
  return (value) => inner(Math.log(value));
}

function extent(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

// Round values from 0 or `from` to `to`: [[value, text], …].
function roundTicks(from, to, number) {
  const rough = (to - from) / Math.max(number, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((size) => size * power).find((size) => size >= rough * 0.999);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let k = Math.ceil(from / step - 1e-9) || 0; k * step <= to * (1 + 1e-9) + 1e-12; k += 1) {
    const value = k * step;
    ticks.push([value, k === 0 ? "0" : value >= 1000 ? plain.format(value) : value.toFixed(digits)]);
  }
  return ticks;
}

// Whole numbers from 0 to `to`.
function wholeTicks(to, number) {
  return roundTicks(0, to, Math.min(number, to)).filter(([value]) => Number.isInteger(value))
    .map(([value]) => [value, plain.format(value)]);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// Beginnings of years, months, days or hours between two seconds, at most about `number`.
function timeTicks(from, to, number) {
  const days = (to - from) / DAY;
  const two = (value) => String(value).padStart(2, "0");
  const ticks = [];
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((step) => days / (30.44 * step) <= number);
  const dayStep = [1 / 24, 1 / 8, 1 / 4, 1 / 2, 1, 2, 5, 10].find((step) => days / step <= number);
  if (dayStep !== undefined) {
    for (let at = Math.ceil(from / (dayStep * DAY)) * dayStep * DAY; at <= to; at += dayStep * DAY) {
      const date = new Date(at * 1000);
      const midnight = date.getUTCHours() === 0 && date.getUTCMinutes() === 0;
      const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
      ticks.push([at, dayStep >= 1 || midnight ? day : `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`]);
    }
    return ticks;
  }
  const start = new Date(from * 1000);
  for (let month = start.getUTCFullYear() * 12; ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12) / 1000;
    if (at > to) return ticks;
    const year = String(Math.floor(month / 12));
    const name = MONTHS[month % 12];
    if (at >= from) ticks.push([at, month % 12 === 0 ? year : ticks.length ? name : `${name} ${year}`]);
  }
}

const INTERVALS = [
  [1 / 288, "5 minutes"], [1 / 72, "20 minutes"], [1 / 24, "1 hour"], [1 / 4, "6 hours"], [1, "1 day"], [2, "2 days"], [4, "4 days"], [7, "1 week"],
  [14, "2 weeks"], [30.44, "1 month"], [60.9, "2 months"], [121.8, "4 months"], [243.5, "8 months"],
  [365.25, "1 year"], [730.5, "2 years"], [1461, "4 years"], [3652.5, "10 years"], [7305, "20 years"],
];

// Of ticks along an axis leave out those whose labels would touch; `size(text)` is in px.
function spaced(ticks, place, size, gap) {
  const kept = [];
  let free = -Infinity;
  const ordered = [...ticks].sort((one, other) => place(one[0]) - place(other[0]));
  for (const tick of ordered) {
    const half = size(tick[1]) / 2;
    if (place(tick[0]) - half < free) continue;
    kept.push(tick);
    free = place(tick[0]) + half + gap;
  }
  return kept;
}

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `${FONT_PX}px system-ui, sans-serif`;
const textPx = (text) => ruler.measureText(text).width + 2; // digits of equal width take a little more

// An SVG with axes. `x` and `y` have a scale maker, a domain and ticks (a list or a function of how many).
function plot(width, height, x, y, xName, paint) {
  const yTicks = typeof y.ticks === "function" ? y.ticks(Math.floor(height / 45)) : y.ticks;
  const left = Math.min(10 + Math.max(...yTicks.map(([, text]) => textPx(text)), 12), width / 3);
  const ends = typeof x.ticks === "function" ? x.ticks(2) : x.ticks;
  const right = Math.max(14, ...ends.slice(-1).map(([, text]) => textPx(text) / 2));
  const box = { left, right: width - right, top: 10, bottom: height - (xName ? 42 : 24) };
  const px = x.scale(x.domain, [box.left, box.right]);
  const py = y.scale(y.domain, [box.bottom, box.top]);
  const xTicks = typeof x.ticks === "function" ? x.ticks(Math.max(2, Math.floor((box.right - box.left) / 60))) : x.ticks;
  const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  for (const [value, text] of spaced(yTicks, (v) => -py(v), () => FONT_PX, 4)) {
    const at = py(value);
    out.append(svg("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "grid" }));
    out.append(svg("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, text));
  }
  const inside = (value, text) => {
    const half = textPx(text) / 2;
    return px(value) - half >= 0 && px(value) + half <= width;
  };
  for (const [value, text] of spaced(xTicks.filter((tick) => inside(...tick)), px, textPx, 8)) {
    const at = px(value);
    out.append(svg("line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, class: "axis" }));
    out.append(svg("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, text));
  }
  out.append(svg("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }));
  if (xName) out.append(svg("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle", class: "name" }, xName));
  paint(out, px, py, box);
  return out;
}

function path(points) {
  return points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

// A line through points, in runs between those that have no value.
function line(points, kind, series) {
  const runs = [[]];
  for (const point of points) {
    if (Number.isFinite(point[1])) runs[runs.length - 1].push(point);
    else runs.push([]);
  }
  return svg("path", { d: runs.filter((run) => run.length > 1).map(path).join(""), class: `${kind} s${series}` });
}

function mark(out, [x, y], series, words, radius = 3) {
  out.append(fill(MARKS[series % MARKS.length](x, y, radius), { class: `mark s${series}` }, []));
  hint(out, x, y, words);
}

function bar(out, x, y, width, height, series, words) {
  out.append(svg("rect", { x, y, width: Math.max(width, 0.5), height: Math.max(height, 0), class: `bar s${series}` }));
  hint(out, x + width / 2, y, words);
}
