// Tables that sort by any column and filter by a text.

const SHOWN = 10;

function kindOf(column) {
  return column.kind ?? (column.isText ? "text" : "number");
}

// Fill `holder`. A column has a title, a `value(row)` to sort by, and a `cell(row)`; `text(row)` is what
// the filter looks at. `unit` is what one row is called, and what several are.
function table(holder, { name, columns, rows, text, unit, sortedBy = null, direction = "descending" }) {
  let [column, order, wanted, all] = [sortedBy, direction, "", false];
  const body = el("tbody");
  const count = el("p", { class: "count", "aria-live": "polite" });
  const more = el("button", { type: "button", class: "more", on: { click: () => { all = !all; show(); } } });
  const heads = columns.map((one, place) => el("th", { scope: "col", class: kindOf(one) },
    el("button", { type: "button", title: one.words, on: { click: () => sortBy(place) } },
      el("span", {}, one.title), el("span", { class: "arrow", "aria-hidden": "true" }))));
  const texts = rows.map((row) => text(row).toLowerCase());
  const values = columns.map((one) => rows.map((row) => one.value(row)));

  function sortBy(place) {
    const first = columns[place].first ?? (columns[place].isText ? "ascending" : "descending");
    const other = { ascending: "descending", descending: "ascending" };
    order = place === column ? other[order] : first;
    column = place;
    show();
  }

  function sorted() {
    const places = rows.map((_, place) => place).filter((place) => texts[place].includes(wanted));
    if (column === null) return places;
    const sign = order === "ascending" ? 1 : -1;
    const of = values[column];
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
    body.replaceChildren(...places.slice(0, all ? undefined : SHOWN).map((place) =>
      el("tr", {}, columns.map((one) => el("td", { class: kindOf(one) }, one.cell(rows[place]))))));
    const total = plural(rows.length, ...unit);
    const found = wanted ? `${numberText(places.length)} of ${total} match` : total;
    const visible = Math.min(places.length, all ? Infinity : SHOWN);
    count.textContent = visible < places.length ? `${found}, ${numberText(visible)} shown` : found;
    more.hidden = places.length <= SHOWN;
    more.textContent = all ? `Show ${SHOWN} only` : `Show all ${numberText(places.length)}`;
    more.setAttribute("aria-expanded", String(all));
  }

  const filter = el("input", { type: "search", placeholder: `Filter ${unit[1]}`, "aria-label": `Filter ${name}`,
    autocomplete: "off", spellcheck: "false",
    on: { input: (event) => { wanted = event.target.value.trim().toLowerCase(); show(); } } });
  holder.replaceChildren(
    el("div", { class: "tools" }, rows.length > 5 ? filter : null, count),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
      el("table", {}, el("caption", { class: "unseen" }, name), el("thead", {}, el("tr", {}, heads)), body)),
    more,
  );
  show();
}
