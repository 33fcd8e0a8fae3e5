// Draw Plotly figures in the page's colours, only those in view, with one cross-hair and one zoom for all line charts.
import { read } from "./live.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };

/** A figure from the server with colours, sizes and fonts of the page's theme. */
function dress(figure, { isLog = false, revision = 1 } = {}) {
  const axis = {
    gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line-2"), automargin: true,
    tickfont: { size: 11 }, title: { font: { size: 11 } },
  };
  const data = figure.data.map((trace) => {
    if (trace.type === "heatmap") {
      const middle = 1 / trace.zmax;
      const scale = [[0, color("--cold")], [middle, color("--even")], [1, color("--hot")]];
      const { zmid, ...rest } = trace;
      return { ...rest, colorscale: scale, colorbar: { ...trace.colorbar, tickfont: { size: 11 } } };
    }
    const tone = color(`--s${trace.meta % 6}`);
    return {
      ...trace,
      line: { width: 1.6, color: tone, ...trace.line },
      fillcolor: trace.stackgroup || trace.fill ? tone : undefined,
      marker: { color: tone, size: 6, ...trace.marker },
    };
  });
  const layout = {
    ...figure.layout,
    margin: { l: 46, r: 14, t: 6, b: 30 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: color("--font"), size: 12, color: color("--ink-2") },
    hoverlabel: { bgcolor: color("--sheet"), bordercolor: color("--line-2"), font: { color: color("--ink"), size: 12 } },
    legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
    xaxis: { ...axis, ...figure.layout.xaxis, title: { ...axis.title, ...figure.layout.xaxis?.title } },
    yaxis: {
      ...axis, ...figure.layout.yaxis, title: { ...axis.title, ...figure.layout.yaxis?.title },
      ...(isLog ? { type: "log", rangemode: "normal", tickformat: "" } : {}),
    },
    uirevision: revision,
  };
  if (layout.showlegend) layout.margin.t = 26;
  return [data, layout];
}

export async function draw(card, figure, options) {
  const plot = card.querySelector(".plot");
  card.querySelector(".waiting").hidden = figure.data.length > 0;
  const [data, layout] = dress(figure, options);
  await Plotly.react(plot, data, layout, CONFIG);
  return plot;
}

/** The grid of line charts: reads what is in view in one request, draws it, keeps zoom and hover together. */
export class ChartGrid {
  constructor(element, url) {
    this.element = element;
    this.url = url;
    this.visible = new Set();
    this.figures = new Map();
    this.range = null;
    this.observer = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "150px" });
    for (const card of element.querySelectorAll("[data-chart]")) this.#adopt(card);
    document.addEventListener("theme", () => this.#redraw());
  }

  /** Add a card for any other series. */
  add(key) {
    if ([...this.element.children].some((card) => card.dataset.chart === key)) return;
    const card = this.element.firstElementChild.cloneNode(true);
    card.dataset.chart = key;
    card.classList.remove("full");
    card.setAttribute("aria-label", key);
    card.querySelector("h3").textContent = key;
    card.querySelector(".unit").textContent = "";
    card.querySelector(".plot").replaceWith(Object.assign(document.createElement("div"), { className: "plot" }));
    this.element.append(card);
    this.#adopt(card);
    card.scrollIntoView({ block: "nearest" });
  }

  async refresh(cards = [...this.visible]) {
    if (!cards.length) return;
    const query = new URLSearchParams({ x: this.x ?? "step", smoothing: this.smoothing ?? "0" });
    for (const card of cards) query.append("ids", card.dataset.chart);
    const figures = await read(`${this.url}/charts?${query}`);
    for (const card of cards) {
      const figure = figures[card.dataset.chart];
      if (!figure) continue;
      this.figures.set(card, figure);
      await this.#draw(card);
    }
  }

  async #draw(card) {
    const figure = this.figures.get(card);
    const isLog = card.dataset.log === "1";
    const plot = await draw(card, figure, { isLog, revision: `${this.x}${isLog}` });
    if (!plot.dataset.bound) this.#bind(plot);
  }

  #bind(plot) {
    plot.dataset.bound = "1";
    plot.on("plotly_relayout", (change) => {
      const range = change["xaxis.range[0]"] !== undefined ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null;
      const isReset = change["xaxis.autorange"] === true;
      if ((range || isReset) && !this.isZooming) this.#zoom(plot, range);
    });
    plot.on("plotly_hover", (event) => this.#point(plot, event.points[0]?.x));
    plot.on("plotly_unhover", () => this.#point(plot, null));
  }

  async #zoom(from, range) {
    this.isZooming = true;
    const others = this.#plots().filter((plot) => plot !== from);
    const change = range ? { "xaxis.range": range } : { "xaxis.autorange": true };
    await Promise.all(others.map((plot) => Plotly.relayout(plot, change)));
    this.isZooming = false;
  }

  /** Show the same x on every other chart, as a thin line. */
  #point(from, x) {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const shapes = x === null || x === undefined ? [] : [{
        type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { width: 1, dash: "dot", color: color("--ink-3") },
      }];
      for (const plot of this.#plots()) if (plot !== from) Plotly.relayout(plot, { shapes });
    });
  }

  #plots() {
    return [...this.visible].map((card) => card.querySelector(".plot")).filter((plot) => plot.dataset.bound);
  }

  #seen(entries) {
    const fresh = [];
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !this.visible.has(target)) fresh.push(target);
      this.visible[isIntersecting ? "add" : "delete"](target);
    }
    this.refresh(fresh).catch(console.warn);
  }

  #adopt(card) {
    this.observer.observe(card);
    card.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this[button.dataset.do](card, button);
    });
  }

  #redraw() {
    for (const card of this.visible) if (this.figures.has(card)) this.#draw(card);
  }

  log(card, button) {
    card.dataset.log = card.dataset.log === "1" ? "0" : "1";
    button.setAttribute("aria-pressed", card.dataset.log === "1");
    this.#draw(card);
  }

  full(card, button) {
    const isFull = card.classList.toggle("full");
    button.textContent = isFull ? "✕" : "⤢";
    button.setAttribute("aria-label", isFull ? "Leave full screen" : "Full screen");
    Plotly.Plots.resize(card.querySelector(".plot"));
    if (isFull) {
      const leave = (event) => {
        if (event.key !== "Escape") return;
        document.removeEventListener("keydown", leave);
        if (card.classList.contains("full")) this.full(card, button);
      };
      document.addEventListener("keydown", leave);
    }
  }

  png(card) {
    Plotly.downloadImage(card.querySelector(".plot"), { format: "png", filename: card.dataset.chart.replaceAll("/", "-"), scale: 2 });
  }

  csv(card) {
    const lines = this.figures.get(card).data.filter((trace) => trace.type === "scatter" && !trace.fill && trace.hoverinfo !== "skip");
    const rows = lines.flatMap((trace) => trace.x.map((x, at) => `${x},"${(trace.name || card.dataset.chart).replaceAll('"', '""')}",${trace.y[at] ?? ""}`));
    const blob = new Blob([["x,series,value", ...rows].join("\n")], { type: "text/csv" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${card.dataset.chart.replaceAll("/", "-")}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}
