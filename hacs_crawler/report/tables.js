// Tables that sort by any column, filter by a text, and are saved as CSV.

const SHOWN = 10;
const MOST_SHOWN = 1000; // a longer table would keep a browser busy

function kindOf(column) {
  return column.kind ?? (column.isText ? "text" : "number");
}

// What a spreadsheet takes for a formula is kept from being one.
function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = typeof value === "string" ? value.replace(/^[=+@\t\r-]/, "'$&") : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(columns, rows) {
  const lines = rows.map((row) => columns.map((one) => (one.csv ?? one.value)(row)));
  return [columns.map((one) => one.title), ...lines].map((cells) => `${cells.map(csvCell).join(",")}\r\n`).join("");
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// Fill `holder`. A column has a title, words that explain it, a `value(row)` to sort by, a `cell(row)`, and, where
// it differs from the value, what a CSV file has, `csv(row)`; `text(row)` is what the filter looks at. `unit` is what
// one row is called, and what several are. Of a table with a `key` the address keeps how it is sorted and filtered.
function table(holder, { name, key, columns, rows, text, unit, sortedBy = null, direction = "descending" }) {
  const section = holder.closest("section")?.id;
  const slugs = columns.map((one) => slug(one.title));
  let [column, order, wanted, all] = [sortedBy, direction, "", false];
  const body = el("tbody");
  const count = el("p", { class: "count", "aria-live": "polite" });
  const more = el("button", { type: "button", class: "more", on: { click: () => { all = !all; change(); } } });
  const csv = el("button", { type: "button", class: "csv", on: { click: () => save(`hacs-${slug(name)}.csv`, csvText(columns, sorted().map((place) => rows[place]))) } });
  const heads = columns.map((one, place) => el("th", { scope: "col", class: kindOf(one) },
    el("button", { type: "button", title: one.words, on: { click: () => sortBy(place) } },
      el("span", {}, one.title), el("span", { class: "arrow", "aria-hidden": "true" }))));
  const values = [];
  let texts = null;

  function sortBy(place) {
    const first = columns[place].first ?? (columns[place].isText ? "ascending" : "descending");
    const other = { ascending: "descending", descending: "ascending" };
    order = place === column ? other[order] : first;
    column = place;
    change();
  }

  function change() {
    const isFirst = column === sortedBy && order === direction;
    keepShown(key, section, { column: isFirst ? null : slugs[column], order, wanted, all });
    show();
  }

  function apply() {
    const how = asked.get(key) ?? FIRST;
    const place = slugs.indexOf(how.column);
    const isOrder = how.order === "ascending" || how.order === "descending";
    [column, order] = place >= 0 && isOrder ? [place, how.order] : [sortedBy, direction];
    [wanted, all] = [how.wanted, how.all];
    filter.value = wanted;
    show();
  }

  function sorted() {
    const needle = wanted.trim().toLowerCase();
    if (needle) texts ??= rows.map((row) => text(row).toLowerCase());
    const places = rows.map((_, place) => place).filter((place) => !needle || texts[place].includes(needle));
    if (column === null) return places;
    const sign = order === "ascending" ? 1 : -1;
    const of = (values[column] ??= rows.map((row) => columns[column].value(row)));
    const missing = (value) => value === null || value === undefined || Number.isNaN(value);
    return places.sort((one, other) => {
      const [a, b] = [of[one], of[other]];
      if (missing(a) || missing(b)) return missing(a) - missing(b) || one - other;
      return (a < b ? -sign : a > b ? sign : 0) || one - other;
    });
  }

  function show() {
    const places = sorted();
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
    const visible = Math.min(places.length, all ? MOST_SHOWN : SHOWN);
    body.replaceChildren(...places.slice(0, visible).map((place) =>
      el("tr", {}, columns.map((one) => el("td", { class: kindOf(one) }, one.cell(rows[place]))))));
    const total = plural(rows.length, ...unit);
    const found = wanted.trim() ? `${numberText(places.length)} of ${total} match` : total;
    count.textContent = visible < places.length ? `${found}, ${numberText(visible)} shown` : found;
    more.hidden = places.length <= SHOWN;
    more.textContent = all ? `Show ${SHOWN} only` : places.length > MOST_SHOWN ? `Show ${numberText(MOST_SHOWN)}` : `Show all ${numberText(places.length)}`;
    more.setAttribute("aria-expanded", String(all));
    csv.textContent = `CSV of ${plural(places.length, "row")}`;
    csv.hidden = !places.length;
  }

  const filter = el("input", { type: "search", placeholder: `Filter ${unit[1]}`, "aria-label": `Filter ${name}`,
    autocomplete: "off", spellcheck: "false",
    on: { input: (event) => { wanted = event.target.value; change(); } } });
  holder.replaceChildren(
    el("div", { class: "tools" }, rows.length > 5 ? filter : null, count),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
      el("table", {}, el("caption", { class: "unseen" }, name), el("thead", {}, el("tr", {}, heads)), body)),
    el("div", { class: "under" }, more, csv, el("details", {}, el("summary", {}, "What the columns say"),
      el("dl", {}, columns.map((one) => el("div", {}, el("dt", {}, one.title), el("dd", {}, one.words)))))),
  );
  if (key) applied.set(key, apply);
  apply();
}
