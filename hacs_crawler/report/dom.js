// Elements made of names, attributes and children; text is never parsed as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [kind, act] of Object.entries(value)) made.addEventListener(kind, act);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

// A URL as text that is broken after slashes rather than anywhere, whatever way its letters run.
function urlText(url) {
  return el("bdi", {}, url.split(/(?<=\/)/).flatMap((part) => [part, el("wbr")]));
}

// A link to where a page is, if it is on the web; anything else stays text.
function outward(url) {
  if (!/^https?:\/\//i.test(url)) return urlText(url);
  return el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, urlText(url));
}

// Terms and what is to be said of each.
function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([term, ...said]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, ...said))));
}
