"use strict";

// How values are written, and the tables of the report.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DAY = 86400;
const byId = (id) => document.getElementById(id);

// An element; text is never parsed as HTML.
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A paragraph, with code for what stands in backticks.
function paragraph(text, kind = "") {
  return el("p", { class: kind }, ...text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part)));
}

const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const utc = { timeZone: "UTC", day: "numeric", month: "short", year: "numeric" };
const dayFormat = new Intl.DateTimeFormat("en-GB", utc);
const timeFormat = new Intl.DateTimeFormat("en-GB", { ...utc, hour: "2-digit", minute: "2-digit" });
const UNITS = [[1 / 1440, "minute"], [1 / 24, "hour"], [1, "day"], [30.44, "month"], [365.25, "year"]];

function numberText(value) {
  return (Number.isInteger(value) || Math.abs(value) >= 100 ? count : digits).format(value);
}

// A duration in days: 5 hours, 12 days, 2.5 years; as a whole number of the unit if it says when.
function durationText(days, isWhole = false) {
  const place = [1 / 24, 2, 99, 730, Infinity].findIndex((most) => days < most);
  const exact = days / UNITS[place][0];
  const value = isWhole ? Math.round(exact) : Number(exact.toPrecision(2));
  return `${numberText(value)} ${UNITS[place][1]}${value === 1 ? "" : "s"}`;
}

function agoText(seconds) {
  const days = (DATA.now - seconds) / DAY;
  return days < 0 ? `in ${durationText(-days, true)}` : days < 1 / 1440 ? "just now" : `${durationText(days, true)} ago`;
}

const WRITTEN = {
  text: (value) => value,
  things: (value) => value.join("\n"),
  page: (value) => DATA.histories[value].url,
  number: numberText,
  p: (p) => (p > 0 && p < 0.001 ? "< 0.001" : p > 0.999 && p < 1 ? "> 0.999" : p.toFixed(p < 0.1 && p ? 3 : 2)),
  share: (value) => `${numberText(100 * value)} %`,
  ago: agoText,
  time: (value) => timeFormat.format(value * 1000),
  days: (days) => durationText(days),
  every: (rate) => (rate > 0 ? `every ${durationText(1 / rate)}` : "never"),
  bytes: (size) => `${d3.format(".3~s")(size)}B`,
};
const TEXTS = new Set(["text", "page", "things"]);

function valueText(kind, value) {
  return value === null ? "–" : WRITTEN[kind](value);
}

// What an update brought: a link behind its text, or a text.
function thing(text) {
  const [, name, url] = /^(.*?) ?(https?:\/\/[^\s…]+)$/i.exec(text) ?? [];
  return el("div", {}, url ? el("a", { href: url, title: url, rel: "noreferrer noopener", target: "_blank" }, el("bdi", {}, name || url)) : el("bdi", {}, text));
}

function cell(kind, value) {
  if (kind === "things") {
    const [all, more] = [value.map(thing), el("details", {}, el("summary", {}, `${value.length - 3} more`))];
    more.append(...all.slice(3));
    return el("div", {}, ...(all.length > 4 ? [...all.slice(0, 3), more] : all));
  }
  const text = valueText(kind, value);
  if (kind === "page") {
    const parts = text.replace(/^https?:\/\//i, "").split(/(?<=\/)/).flatMap((part) => [part, el("wbr")]);
    return el("a", { href: `#page=${DATA.ids[value]}`, title: text }, el("bdi", {}, ...parts));
  }
  return el("span", kind === "ago" && value !== null ? { title: `${timeFormat.format(value * 1000)} UTC` } : {}, text);
}

// Add a table that can be searched and sorted, or a sentence where it has no row.
function table(holder, name, columns, without) {
  const rows = columns.length ? columns[0].values.map((_, place) => [place]) : [];
  if (!rows.length) return holder.append(paragraph(without, "empty"));
  const made = el("table", {}, el("caption", { class: "unseen" }, name));
  holder.append(el("div", { class: "table" }, made));
  const isLong = rows.length > 20;
  const shown = new DataTable(made, {
    data: rows,
    order: [],
    autoWidth: false,
    pageLength: 10,
    paging: isLong,
    searching: isLong,
    info: isLong,
    layout: { topStart: isLong ? "search" : null, topEnd: null, bottomStart: isLong ? "info" : null, bottomEnd: isLong ? ["pageLength", "paging"] : null },
    lengthMenu: [10, 100, { label: "all", value: -1 }],
    language: { search: "Search", info: "_START_ to _END_ of _TOTAL_", infoFiltered: "(of _MAX_)", infoEmpty: "none", lengthMenu: "Rows _MENU_" },
    columns: columns.map(({ title, kind, values }) => ({
      title,
      type: TEXTS.has(kind) ? "string" : "num",
      className: TEXTS.has(kind) ? kind : "number",
      orderSequence: TEXTS.has(kind) ? ["asc", "desc"] : ["desc", "asc"],
      render: (_, how, [place]) => (how === "display" ? cell(kind, values[place])
        : how === "filter" || TEXTS.has(kind) ? valueText(kind, values[place]) : values[place]),
    })),
  });
  made.closest(".dt-container").querySelector("nav")?.setAttribute("aria-label", `More ${name}`);
  for (const [event, length] of isLong ? [["beforeprint", 100], ["afterprint", 10]] : []) addEventListener(event, () => shown.page.len(length).draw());
  shown.columns().every(function explain(place) {
    this.header().title = columns[place].words;
  });
}
