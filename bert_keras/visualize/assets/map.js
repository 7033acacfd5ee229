"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
// Outlines of the marks in a square from -1 to 1.
const MARKS = [
  "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0-1 0Z", "M-.85-.85H.85V.85H-.85Z", "M0-1L1 .8H-1Z", "M0-1.1L1.1 0 0 1.1-1.1 0Z",
  "M0 1L1-.8H-1Z", "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
  "M-1-.6L-.6-1 0-.4.6-1 1-.6.4 0 1 .6.6 1 0 .4-.6 1-1 .6-.4 0Z",
  "M0-1.1L.3-.35 1.1-.3.45.2.7 1 0 .55-.7 1-.45.2-1.1-.3-.3-.35Z",
];
const SVG = "http://www.w3.org/2000/svg";
const element = (id) => document.getElementById(id);
const svg = element("drawing"), tip = element("tip");
const hidden = new Set();
const styleOf = (number) => {
  const colors = data.colors, color = number % colors.length, round = Math.floor(number / colors.length);
  return [colors[color], MARKS[(color + round) % MARKS.length]];
};
const labelOf = (place) => (data.labels.length ? data.labels[place] : 0);

function markOf(number) {
  const [color, outline] = styleOf(number), path = document.createElementNS(SVG, "path");
  path.setAttribute("d", outline);
  path.setAttribute("fill", color);
  return path;
}

// === Points ===

const points = data.points.map((point, place) => {
  const path = markOf(labelOf(place));
  const name = data.labels.length ? `${data.names[labelOf(place)]}: ${data.texts[place]}` : data.texts[place];
  path.setAttribute("tabindex", place ? "-1" : "0");
  path.setAttribute("role", "img");
  path.setAttribute("aria-label", name);
  path.onmouseenter = path.onfocus = () => show(place);
  path.onmouseleave = path.onblur = () => { tip.hidden = true; path.classList.remove("on"); };
  path.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    for (let next = place + step; next >= 0 && next < points.length; next += step) {
      if (points[next].style.display === "none") continue;
      stopAt(points[next]);
      points[next].focus();
      return;
    }
  };
  svg.append(path);
  return path;
});

// The Tab key stops at one point; the arrow keys move from there.
function stopAt(path) {
  for (const point of points) point.setAttribute("tabindex", point === path ? "0" : "-1");
}

function layOut() {
  const { width, height } = svg.getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const edge = 26, radius = points.length > 600 ? 4 : points.length > 150 ? 5.5 : 7;
  const ends = [0, 1].map((axis) => {
    const values = data.points.map((point) => point[axis]);
    return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  });
  // Both axes have one scale, so that distances in all directions can be compared.
  const [wide, high] = ends.map(([low, top]) => top - low || 1e-9);
  const scale = Math.min((width - 2 * edge) / wide, (height - 2 * edge) / high, 1e9);
  const [middleX, middleY] = ends.map(([low, top]) => (low + top) / 2);
  points.forEach((path, number) => {
    const left = width / 2 + (data.points[number][0] - middleX) * scale;
    const top = height / 2 - (data.points[number][1] - middleY) * scale;
    path.setAttribute("transform", `translate(${left.toFixed(1)} ${top.toFixed(1)}) scale(${radius})`);
    path.style.strokeWidth = `${0.8 / radius}px`;
    path.position = [left, top];
  });
}

function show(number) {
  const path = points[number], [left, top] = path.position, box = element("map").getBoundingClientRect();
  tip.replaceChildren();
  if (data.labels.length) {
    tip.append(Object.assign(document.createElement("b"), { textContent: data.names[labelOf(number)] }));
  }
  tip.append(data.texts[number]);
  path.classList.add("on");
  tip.hidden = false;
  const right = left > box.width / 2, below = top < box.height / 2;
  Object.assign(tip.style, {
    left: right ? "auto" : `${left + 12}px`, right: right ? `${box.width - left + 12}px` : "auto",
    top: below ? `${top + 12}px` : "auto", bottom: below ? "auto" : `${box.height - top + 12}px`,
  });
}

// === Labels and search ===

data.names.forEach((name, number) => {
  const button = Object.assign(document.createElement("button"), { type: "button" });
  const key = document.createElementNS(SVG, "svg");
  key.setAttribute("viewBox", "-1.3 -1.3 2.6 2.6");
  key.setAttribute("aria-hidden", "true");
  key.append(markOf(number));
  const count = data.labels.filter((label) => label === number).length;
  button.append(key, `${name} (${count})`);
  button.setAttribute("aria-pressed", "true");
  button.onclick = () => {
    if (!hidden.delete(number)) hidden.add(number);
    button.setAttribute("aria-pressed", String(!hidden.has(number)));
    filter();
  };
  const item = document.createElement("li");
  item.append(button);
  element("legend").append(item);
});

function filter() {
  const wanted = element("find").value.trim().toLowerCase();
  let count = 0;
  points.forEach((path, number) => {
    path.style.display = hidden.has(labelOf(number)) ? "none" : "";
    const has = data.texts[number].toLowerCase().includes(wanted);
    path.classList.toggle("faint", Boolean(wanted) && !has);
    count += Boolean(wanted) && has && !hidden.has(labelOf(number));
  });
  const stop = points.find((path) => path.getAttribute("tabindex") === "0");
  const first = points.find((path) => path.style.display !== "none");
  if (first && stop.style.display === "none") stopAt(first);
  element("found").textContent = wanted ? `${count} of ${points.length} texts` : "";
}

element("find").oninput = filter;
document.querySelector("form").onsubmit = () => false;
addEventListener("resize", layOut);
layOut();
