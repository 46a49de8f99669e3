// What the address says after its #: a page, or a section and how tables are sorted and filtered.

const FIRST = { column: null, order: null, wanted: "", all: false };
const asked = new Map(); // by key of a table: what differs from how it comes
let lastSection = ""; // that of the overview that was shown last
const applied = new Map(); // by key of a table: what has it show what is asked

function slug(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "place";
}

// #page=ID, or #SECTION&TABLE.sort=COLUMN.ORDER&TABLE.filter=TEXT&TABLE.all
function readAddress() {
  const text = location.hash.slice(1);
  const page = /^page=(-?\d+)$/.exec(text);
  if (page) return { page: page[1] };
  const [section] = text.split("&", 1);
  const isSection = /^[\w-]+$/.test(section);
  const told = new Map();
  lastSection = isSection ? section : "";
  for (const [name, value] of new URLSearchParams(isSection ? text.slice(section.length) : text)) {
    const [, key, what] = /^(\w+)\.(sort|filter|all)$/.exec(name) ?? [];
    if (!key) continue;
    const [column, order] = what === "sort" ? value.split(".") : [];
    const more = { sort: { column, order }, filter: { wanted: value }, all: { all: true } }[what];
    told.set(key, { ...FIRST, ...told.get(key), ...more });
  }
  return { section: lastSection, told };
}

function overviewAddress() {
  const parts = lastSection ? [lastSection] : [];
  for (const [key, { column, order, wanted, all }] of asked) {
    if (column) parts.push(`${key}.sort=${column}.${order}`);
    if (wanted) parts.push(`${key}.filter=${encodeURIComponent(wanted)}`);
    if (all) parts.push(`${key}.all`);
  }
  return `#${parts.join("&")}`;
}

// Keep how a table is shown now; a table without a key is not kept.
function keepShown(key, section, how) {
  if (!key) return;
  asked.set(key, how);
  lastSection = section;
  history.replaceState(null, "", overviewAddress());
}
