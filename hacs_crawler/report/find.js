// Any page of the state: found in the index that comes with the report, or by a command.

let I = null; // the index: a column for each fact, or null where the report has none
let placeInIndex = new Map();

async function readIndex() {
  I = null;
  placeInIndex = new Map();
  if (!DATA.index.deflated) return;
  const bytes = Uint8Array.from(atob(DATA.index.deflated), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  I = JSON.parse(await new Response(inflated).text());
  placeInIndex = new Map(I.id.map((id, place) => [id, place]));
}

// A word of a shell's command line.
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// A command line with a button that copies it; where a browser does not allow that, it is selected.
function command(line) {
  const code = el("code", {}, line);
  const told = el("span", { class: "soft", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      told.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      told.textContent = "selected";
    }
  };
  return el("p", { class: "command" }, code, el("button", { type: "button", class: "copy", on: { click: copy } }, "Copy"), told);
}

function showFind() {
  const n = DATA.counts.known;
  if (!n) return leaveEmpty("find", noPages());
  if (!I) {
    showCommands();
    return;
  }
  say("find", `All ${plural(I.id.length, "page")} that can be read, the most promising first. Type a part of a URL.`);
  const rows = I.id.map((_, place) => place);
  const fact = (title, words, value, cell) => ({ title, words, value, cell });
  table(tableOf("find"), { name: "All pages", key: "find", unit: ["page", "pages"], rows, text: (place) => I.url[place], sortedBy: 1,
    columns: [
      { ...PAGE, value: (place) => I.url[place],
        cell: (place) => el("a", { href: `#page=${I.id[place]}`, title: I.url[place] }, urlText(shortUrl(I.url[place]))) },
      fact("p", CHANCE.words, (place) => I.p[place], (place) => chanceText(I.p[place])),
      fact("Updates", RATE.words, (place) => I.rate[place], (place) => everyText(I.rate[place]) + (I.visits[place] < 2 ? " (prior)" : "")),
      { ...moment("Last visit", "How long ago the page was last seen", (place) => I.last[place]), first: "ascending" },
      moment("Last update", "τ: how long ago a visit last found new links", (place) => I.lastUpdate[place], "none seen"),
      fact("Visits", VISITS.words, (place) => I.visits[place], (place) => numberText(I.visits[place])),
      fact("Found", UPDATES.words, (place) => I.updates[place], (place) => numberText(I.updates[place])),
      fact("Failed", FAILURES.words, (place) => I.failures[place], (place) => numberText(I.failures[place])),
    ] });
}

// Where the report has no index: what to type.
function showCommands() {
  say("find", `The state has ${plural(DATA.counts.known, "page")}: more than the ${numberText(DATA.index.most)} up to which a report can be searched. Type a URL, or a part of one, for the command that finds it; `,
    el("code", {}, `hacs report --index ${DATA.counts.known}`), " writes a report with them all.");
  const lines = el("div");
  const show = (wanted) => lines.replaceChildren(
    el("p", {}, "What is known of one page:"), command(`hacs show ${quoted(wanted || "https://example.org/")}`),
    el("p", {}, "Pages with this text:"), command(`hacs export | grep -F ${quoted(wanted || "example.org")}`));
  tableOf("find").replaceChildren(el("div", { class: "tools" }, el("input", { type: "search", placeholder: "URL", "aria-label": "URL of a page",
    autocomplete: "off", spellcheck: "false", on: { input: (event) => show(event.target.value.trim()) } })), lines);
  show("");
}

// The view of a page that is in no list: what the index knows of it.
function showIndexed(holder, place) {
  const visits = I.visits[place];
  holder.replaceChildren(
    backLink(),
    el("h1", { tabindex: -1, class: "url" }, outward(I.url[place])),
    facts([
      ["Updates", visits > 1 ? `${everyText(I.rate[place])} (λ = ${numberText(I.rate[place])} a day)` : "not known before a second visit"],
      ["p now", chanceText(I.p[place])],
      ["Last visit", agoText(I.last[place], DATA.now), I.last[place] ? ` (${dayText(I.last[place])})` : ""],
      ["Last update, τ", I.lastUpdate[place] ? `${agoText(I.lastUpdate[place], DATA.now)} (${dayText(I.lastUpdate[place])})` : "none seen"],
      ["Visits", numberText(visits)],
      ["Of these with an update", numberText(I.updates[place])],
      ["Failed since", plural(I.failures[place], "attempt")],
      ...(I.notBefore[place] > DATA.now ? [["In today's plan", `no: gone, left alone until ${dayText(I.notBefore[place])}`]] : []),
    ]),
    el("p", { class: "empty" }, "The page is in none of this report's lists, so its visits are not kept here. Where the state is, this shows them:"),
    command(`hacs show ${quoted(I.url[place])}`),
  );
}

// An address of a page that the report does not know.
function showUnknown(holder, id) {
  holder.replaceChildren(
    backLink(),
    el("h1", { tabindex: -1 }, "No such page in this report"),
    el("p", {}, "The address asks for the page with the number ", el("code", {}, id), ". ",
      I ? "The state did not know such a page when the report was written." :
        "It is in none of the report's lists, and the report has no index of all pages: the page may still be known. This shows what is known of a page:"),
    I ? "" : command(`hacs show ${quoted("https://example.org/")}`),
  );
}
