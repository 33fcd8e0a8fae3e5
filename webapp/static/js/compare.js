// The compare page: reads the charts in view, hides and groups runs, and keeps all that was chosen in the address.
import { follow, read } from "./live.js";
import { drawSweep } from "./parallel.js";
import { dashOf, draw as drawFigure, loadPlotly } from "./plot.js";

const REST_MS = 2000;
const { runs, url, live } = document.body.dataset;
const part = (id) => document.getElementById(id);
const grid = part("grid");
const boxes = [...document.querySelectorAll("#runs .show")];
const visible = new Set();

const hidden = () => boxes.filter((box) => !box.checked).map((box) => box.value);
const articles = () => [...grid.children];

/** What was chosen, as a query; with the keys of some charts. */
function chosen(charts) {
  const query = new URLSearchParams({ runs });
  if (hidden().length) query.set("hide", hidden().join(","));
  for (const id of ["group", "smoothing", "x"]) query.set(id, part(id).value);
  for (const chart of charts) query.append("keys", chart.dataset.key);
  return query;
}

function keepAddress() {
  history.replaceState(null, "", `${location.pathname}?${chosen(articles())}`);
}

let asked = 0;

/** Read and draw; a chart that was asked for again meanwhile waits for the newer answer. */
async function refresh(charts = [...visible]) {
  if (!charts.length) return;
  const turn = ++asked;
  for (const chart of charts) chart.turn = turn;
  const answer = read(`${url}?${chosen(charts)}`);
  loadPlotly().catch(console.warn);
  const figures = await answer;
  const current = charts.filter((chart) => chart.turn === turn);
  await Promise.all(current.map((chart) => draw(chart, figures[chart.dataset.key])));
}

async function draw(chart, figure) {
  chart.figure = figure;
  const isLog = part("log").checked;
  const plot = await drawFigure(chart, figure, { isLog, revision: `${part("x").value} ${isLog}` });
  if (!plot.dataset.bound) bind(plot);
  chart.dataset.drawn = figure.data.length;
}

/** One zoom for all charts. */
function bind(plot) {
  plot.dataset.bound = "1";
  plot.on("plotly_relayout", (change) => {
    if (grid.dataset.zooming) return;
    const range = change["xaxis.range[0]"] === undefined ? null : [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (range || change["xaxis.autorange"]) zoom(plot, range ? { "xaxis.range": range } : { "xaxis.autorange": true });
  });
}

async function zoom(from, change) {
  grid.dataset.zooming = "1";
  const others = [...grid.querySelectorAll(".plot[data-bound]")].filter((plot) => plot !== from);
  await Promise.all(others.map((plot) => Plotly.relayout(plot, change)));
  delete grid.dataset.zooming;
}

function redraw() {
  for (const chart of articles()) if (chart.figure) draw(chart, chart.figure);
  drawAll();
}

function changed() {
  keepAddress();
  drawAll();
  return refresh().catch(console.warn);
}

const observer = new IntersectionObserver((entries) => {
  const fresh = [];
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting && !visible.has(target)) fresh.push(target);
    visible[isIntersecting ? "add" : "delete"](target);
  }
  refresh(fresh).catch(console.warn);
}, { rootMargin: "150px" });
for (const chart of articles()) observer.observe(chart);

grid.addEventListener("click", (event) => {
  if (!event.target.closest("[data-do=remove]")) return;
  const chart = event.target.closest("article");
  observer.unobserve(chart);
  visible.delete(chart);
  chart.remove();
  keepAddress();
});

part("add-chart").addEventListener("change", ({ target }) => {
  const key = target.value.trim();
  target.value = "";
  const isKey = [...part("keys").options].some((option) => option.value === key);
  if (!isKey || articles().some((chart) => chart.dataset.key === key)) return;
  const article = document.createElement("article");
  article.className = "sheet chart";
  article.dataset.key = key;
  article.setAttribute("aria-label", key);
  article.innerHTML = '<header><h3></h3><span class="tools"><button type="button" class="plain" data-do="remove">✕</button></span></header><div class="plot"></div><div class="waiting">No run has logged this yet</div>';
  article.querySelector("h3").textContent = key;
  article.querySelector("button").setAttribute("aria-label", `Remove the chart of ${key}`);
  grid.append(article);
  observer.observe(article);
  keepAddress();
});

part("show-all").addEventListener("change", ({ target }) => {
  for (const box of boxes) box.checked = target.checked;
  changed();
});
for (const control of [...boxes, part("group"), part("smoothing"), part("x")]) control.addEventListener("change", changed);
part("log").addEventListener("change", redraw);
part("only-differences").addEventListener("change", ({ target }) => part("config-table").classList.toggle("only-differences", target.checked));
document.addEventListener("theme", redraw);

const STROKES = { solid: "none", dash: "6 3", dot: "2 3", dashdot: "6 2 2 2", longdash: "9 3", longdashdot: "9 2 2 2" };
for (const swatch of document.querySelectorAll(".swatch")) {
  swatch.firstElementChild.setAttribute("stroke-dasharray", STROKES[dashOf(Number(swatch.dataset.index))]);
}

const sweep = part("sweep") && JSON.parse(part("sweep").dataset.sweep);

function drawAll() {
  if (sweep) drawSweep(part("parallel"), sweep, { result: part("result").value, hidden: new Set(hidden().map(Number)) });
}

part("result")?.addEventListener("change", drawAll);
addEventListener("resize", drawAll);
drawAll();

// Fifty runs are much to read: after each reading it rests a while, whatever is told meanwhile.
const rest = () => new Promise((done) => setTimeout(done, REST_MS));
if (live !== undefined) follow(null, () => refresh().then(rest));
