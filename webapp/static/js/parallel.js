// Parallel coordinates: each run a line through its settings and its result; dragging along an axis keeps those that pass.

const TOP = 34;
const BOTTOM = 26;
const HEIGHT = 300;
const SIDE = 70;
const MOST_TICKS = 5;
const brushes = new Map();

/** `sweep`: axes and metrics ({name, values by run}) and runs ({id, label}). */
export function drawSweep(svg, sweep, { result, hidden }) {
  const metric = sweep.metrics.find(({ name }) => name === result);
  const axes = [...sweep.axes, ...(metric ? [metric] : [])].map((axis) => ({ ...axis, ...scaleOf(axis.values) }));
  const width = Math.max(svg.parentElement.clientWidth, axes.length * 140);
  const step = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
  axes.forEach((axis, at) => { axis.x = SIDE + at * step; });
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", HEIGHT);
  const lines = sweep.runs.map((run, index) => ({ run, index })).filter(({ run }) => !hidden.has(run.id));
  const again = () => drawSweep(svg, sweep, { result, hidden });
  const [kept, faded] = [true, false].map((wanted) => lines.filter(({ index }) => passes(axes, index) === wanted));
  svg.replaceChildren(
    ...faded.map(({ run, index }) => lineOf(axes, run, index, "faded")),
    ...kept.map(({ run, index }) => lineOf(axes, run, index, "kept")),
    ...axes.map((axis) => axisOf(svg, axis, again)),
  );
  svg.dataset.kept = kept.length;
}

/** Where a value stands between 0 (bottom) and 1 (top), and what is written beside: numbers on a line, words in a row. */
function scaleOf(values) {
  const known = values.filter((value) => value !== null);
  if (known.every((value) => typeof value === "number")) {
    const [low, high] = [Math.min(...known), Math.max(...known)];
    // What spans more than two powers of ten is looked at by its powers.
    const bend = low > 0 && high / low > 100 ? Math.log : (value) => value;
    const share = (value) => (high === low ? 0.5 : (bend(value) - bend(low)) / (bend(high) - bend(low)));
    const ticks = [...new Set(known)].sort((one, other) => one - other);
    return { share, ticks: ticks.length <= MOST_TICKS ? ticks : [low, high] };
  }
  const words = [...new Set(known.map(String))].sort();
  return { share: (value) => (words.length < 2 ? 0.5 : words.indexOf(String(value)) / (words.length - 1)), ticks: words };
}

const height = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);

function passes(axes, index) {
  return axes.every((axis) => {
    const brush = brushes.get(axis.name);
    const value = axis.values[index];
    if (!brush) return true;
    return value !== null && axis.share(value) >= brush[0] - 0.02 && axis.share(value) <= brush[1] + 0.02;
  });
}

function lineOf(axes, run, index, kind) {
  const points = axes.filter((axis) => axis.values[index] !== null);
  const d = points.map((axis, at) => `${at ? "L" : "M"}${axis.x},${height(axis.share(axis.values[index]))}`).join("");
  const path = make("path", { d, class: `run ${kind} tone-${index % 6}`, "data-run": run.id });
  path.append(make("title", {}, `${run.label}: ${points.map((axis) => `${axis.name} ${shown(axis.values[index])}`).join(", ")}`));
  return path;
}

function axisOf(svg, axis, again) {
  const group = make("g", { class: "axis", transform: `translate(${axis.x},0)` });
  group.append(make("line", { y1: TOP, y2: HEIGHT - BOTTOM }));
  const name = axis.name.length > 18 ? `…${axis.name.slice(-17)}` : axis.name;
  const title = make("text", { y: 18, "text-anchor": "middle", class: "name" }, name);
  title.append(make("title", {}, axis.name));
  group.append(title);
  for (const tick of axis.ticks) group.append(make("text", { x: 6, y: height(axis.share(tick)) + 4 }, shown(tick)));
  const brush = brushes.get(axis.name);
  if (brush) group.append(make("rect", { class: "brush", x: -7, width: 14, y: height(brush[1]), height: Math.max(3, height(brush[0]) - height(brush[1])) }));
  const grip = make("rect", { class: "grip", x: -14, width: 28, y: TOP - 6, height: HEIGHT - TOP - BOTTOM + 12, "data-axis": axis.name });
  grip.addEventListener("pointerdown", (event) => drag(svg, axis.name, event, again));
  group.append(grip);
  return group;
}

/** A drag sets the axis's range; a click lets it go. */
function drag(svg, name, start, again) {
  const shareAt = (event) => {
    const box = svg.getBoundingClientRect();
    const y = ((event.clientY - box.top) / box.height) * HEIGHT;
    return Math.max(0, Math.min(1, (HEIGHT - BOTTOM - y) / (HEIGHT - TOP - BOTTOM)));
  };
  const from = shareAt(start);
  const end = new AbortController();
  brushes.delete(name);
  addEventListener("pointermove", (event) => {
    const to = shareAt(event);
    if (Math.abs(to - from) < 0.01) return;
    brushes.set(name, [Math.min(from, to), Math.max(from, to)]);
    again();
  }, { signal: end.signal });
  for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, () => { end.abort(); again(); }, { signal: end.signal });
  start.preventDefault();
}

const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value).slice(0, 18));

function make(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
