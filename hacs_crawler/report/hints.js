// What a chart says where the pointer is: the words of the nearest point, anywhere over the drawing.

let shown = null; // what is on display now

// Keep words for a point of a drawing.
function hint(out, x, y, words) {
  (out.hints ??= []).push({ x, y, words });
}

// Hide what is on display; false if nothing was.
function hideHint() {
  if (!shown?.isConnected) return false;
  shown.remove();
  shown = null;
  return true;
}

// The hints nearest in x, or nearest by x and y: all that are there.
function nearest(hints, x, y, byBoth) {
  const far = (one) => (byBoth ? Math.hypot(one.x - x, one.y - y) : Math.abs(one.x - x));
  const least = hints.reduce((so, one) => Math.min(so, far(one)), Infinity);
  return hints.filter((one) => far(one) <= least + 0.5).sort((one, other) => one.y - other.y);
}

function showHint(holder, event, byBoth) {
  const drawing = holder.querySelector("svg");
  if (!drawing?.hints?.length) return;
  const frame = drawing.getBoundingClientRect();
  const scale = frame.width / drawing.viewBox.baseVal.width;
  const found = nearest(drawing.hints, (event.clientX - frame.left) / scale, (event.clientY - frame.top) / scale, byBoth);
  hideHint();
  const box = el("div", { class: "hint", role: "status" }, [...new Set(found.map((one) => one.words))].slice(0, 6).map((words) => el("p", {}, words)));
  const at = svg("svg", { class: "spot", width: 13, height: 13, "aria-hidden": "true" }, svg("circle", { cx: 6.5, cy: 6.5, r: 5 }));
  shown = el("div", { class: "hints" }, at, box);
  holder.append(shown);
  const [x, y] = [found[0].x * scale, found[0].y * scale];
  at.style.translate = `${x - 6.5}px ${y - 6.5}px`;
  const left = Math.min(Math.max(x - box.offsetWidth / 2, 0), frame.width - box.offsetWidth);
  const top = y > box.offsetHeight + 12 ? y - box.offsetHeight - 10 : y + 12;
  box.style.translate = `${left}px ${top}px`;
}

function listen(holder, byBoth) {
  const show = (event) => showHint(holder, event, byBoth);
  holder.addEventListener("pointermove", show);
  holder.addEventListener("pointerdown", show);
  holder.addEventListener("pointerleave", hideHint);
}
