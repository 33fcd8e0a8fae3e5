// Draw a figure from the server in the page's colours: theme, dashes, axes, lines of what happened.

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const NUM_COLORS = 6;
const MOST_MARKS = 40;
const MARKS = {
  checkpoint: { tone: "--ink-3", sign: "▴", y: 0, top: 0.05 },
  restart: { tone: "--busy", sign: "↻", y: 1, top: 1 },
  incident: { tone: "--bad", sign: "!", y: 1, top: 1 },
};

let palette = new Map();
document.addEventListener("theme", () => { palette = new Map(); });

/** A colour of the theme; to ask the browser for each would have it work out the page's style anew each time. */
export function color(name) {
  if (!palette.has(name)) palette.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return palette.get(name);
}

let library = null;

/** Run the library of charts: so large that the server should be at work meanwhile, so call it when figures are asked for. */
export function loadPlotly() {
  library ??= new Promise((onload, onerror) => {
    const { href: src } = document.getElementById("plotly");
    document.head.append(Object.assign(document.createElement("script"), { src, onload, onerror }));
  });
  return library;
}

/** Draw into the card's plot. Options: isLog, range (of x), spread (of y), marks ({x, kind, text}), revision. */
export async function draw(card, figure, options = {}) {
  const plot = card.querySelector(".plot");
  await loadPlotly();
  card.querySelector(".waiting").hidden = figure.data.length > 0;
  await Plotly.react(plot, figure.data.map((trace) => dressTrace(trace, figure, options)), dressLayout(figure, options), CONFIG);
  return plot;
}

/** Colour is never the only difference; the seventh series has the first one's colour and another dash. */
export function dashOf(series) {
  return DASHES[(series + Math.floor(series / NUM_COLORS)) % DASHES.length];
}

function dressTrace(trace, figure, { isLog }) {
  if (trace.type === "heatmap") return dressHeat(trace);
  const { series, role } = trace.meta;
  const tone = color(`--s${series % NUM_COLORS}`);
  const dash = trace.stackgroup ? "solid" : dashOf(series);
  return {
    ...trace,
    y: isLog && role === "band" ? liftedBand(trace.y, figure) : trace.y,
    line: { width: 1.6, color: tone, dash, ...trace.line },
    fillcolor: trace.stackgroup || trace.fill ? tone : undefined,
    marker: { color: tone, size: 6, ...trace.marker },
  };
}

function dressHeat({ zmid, ...trace }) {
  // Without a middle there is nothing to be below: one colour, from none to much.
  const middle = [[(zmid - trace.zmin) / (trace.zmax - trace.zmin), color("--even")]];
  const scale = zmid === undefined ? [[0, color("--even")], [1, color("--hot")]] : [[0, color("--cold")], ...middle, [1, color("--hot")]];
  return { ...trace, colorscale: scale, colorbar: { ...trace.colorbar, tickfont: { size: 11 } } };
}

/** A band that reaches zero goes down to the least value the logarithmic axis shows. */
function liftedBand(values, figure) {
  const shown = figure.data.flatMap((trace) => trace.y).filter((y) => y > 0);
  const floor = shown.reduce((least, y) => Math.min(least, y), Infinity);
  return values.map((y) => (y > 0 ? y : floor));
}

function dressLayout({ layout, data }, { isLog = false, range = null, spread = null, marks = [], revision = 1 }) {
  const axis = {
    gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line-2"),
    tickfont: { size: 11 }, title: { font: { size: 11 } },
  };
  const dressed = {
    ...layout,
    margin: { l: 46, r: 18, t: layout.showlegend ? 26 : 16, b: 30 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: color("--font"), size: 12, color: color("--ink-2") },
    hoverlabel: { bgcolor: color("--sheet"), bordercolor: color("--line-2"), font: { color: color("--ink"), size: 12 }, namelength: -1 },
    legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
    // A margin that is found by measuring draws a chart twice; without a title the one above is enough.
    xaxis: { ...axis, automargin: Boolean(layout.xaxis?.title), ...layout.xaxis, title: { ...axis.title, ...layout.xaxis?.title } },
    yaxis: { ...axis, automargin: true, exponentformat: "e", ...layout.yaxis, title: { ...axis.title, ...layout.yaxis?.title } },
    uirevision: revision,
  };
  if (isLog) Object.assign(dressed.yaxis, { type: "log", rangemode: "normal", tickformat: "", range: undefined });
  if (range) dressed.xaxis.range = range;
  if (spread) dressed.yaxis.range = spread;
  return data.length ? { ...dressed, ...markLines(marks, data, range) } : dressed;
}

/** Vertical lines, with a sign that says on hovering what happened; the newest of those in view. */
function markLines(marks, data, range) {
  const line = data.find(({ meta }) => meta?.role === "line" && !meta.attempt);
  const [low, high] = range ?? [line?.x[0], line?.x.at(-1)];
  const shown = marks.filter(({ x }) => x >= low && x <= high).sort((one, other) => other.x - one.x).slice(0, MOST_MARKS);
  return {
    shapes: shown.map(({ x, kind }) => ({
      type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: MARKS[kind].top, layer: "below",
      line: { width: 1, dash: kind === "incident" ? "solid" : "dot", color: color(MARKS[kind].tone) },
    })),
    annotations: shown.map(({ x, kind, text }) => ({
      x, y: MARKS[kind].y, yref: "paper", yanchor: "bottom", showarrow: false, text: MARKS[kind].sign,
      hovertext: escapeMarkup(text), captureevents: true, font: { size: 10, color: color(MARKS[kind].tone) },
    })),
  };
}

/** Plotly reads some tags in texts; what a process said is text. */
export function escapeMarkup(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
