// What is shown: the overview, or the page that the address names.

function route() {
  const wanted = /^#page=(-?\d+)$/.exec(location.hash);
  const place = wanted ? placeOfPage.get(wanted[1]) : undefined;
  const [all, one] = [byId("all"), byId("one")];
  all.hidden = place !== undefined;
  one.hidden = place === undefined;
  if (place === undefined) {
    one.replaceChildren();
    document.title = "HACS report";
    return;
  }
  showPage(one, place);
  document.title = `${shortUrl(P.url[place])} · HACS report`;
  scrollTo(0, 0);
  one.querySelector("h1").focus();
}

showHeader();
showPlan();
showRuns();
showExperiment();
showCalibration();
showPages();
showState();
addEventListener("hashchange", route);
route();
