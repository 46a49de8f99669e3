// What is shown: the overview, or the page that the address names.

let leftAt = 0; // how far the overview was scrolled when a page was opened

function route() {
  const wanted = /^#page=(-?\d+)$/.exec(location.hash);
  const place = wanted ? placeOfPage.get(wanted[1]) : undefined;
  const [all, one] = [byId("all"), byId("one")];
  const isBack = !one.hidden;
  if (!all.hidden) leftAt = scrollY;
  all.hidden = place !== undefined;
  one.hidden = place === undefined;
  if (place === undefined) {
    one.replaceChildren();
    document.title = "HACS report";
    if (isBack) scrollTo({ top: leftAt, behavior: "instant" });
    return;
  }
  showPage(one, place);
  document.title = `${shortUrl(P.url[place])} · HACS report`;
  scrollTo({ top: 0, behavior: "instant" });
  one.querySelector("h1").focus({ preventScroll: true });
}

addEventListener("hashchange", route);
route();
showHeader();
showPlan();
showRuns();
showExperiment();
showCalibration();
showPages();
showSignals();
showState();
if (/^#\w+$/.test(location.hash)) byId(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
