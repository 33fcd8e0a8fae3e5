// One chart's card: made when it comes near the view, emptied when it is far; its tools.
import { color, draw } from "./plot.js";
import { countHidden, csvOf, summarise, tableOf } from "./values.js";

const template = document.getElementById("chart-card");

/** Placeholder of a card: as high as the card will be, and nothing in it. */
export function placeholder({ id, title, unit = "" }) {
  const article = document.createElement("article");
  article.className = "sheet chart";
  article.tabIndex = -1;
  Object.assign(article.dataset, { chart: id, title, unit });
  article.setAttribute("aria-label", title);
  return article;
}

export class ChartCard {
  constructor(article) {
    this.article = article;
    article.replaceChildren(template.content.cloneNode(true));
    const { title, unit } = article.dataset;
    const part = (selector) => article.querySelector(selector);
    Object.assign(this, { plot: part(".plot"), hair: part(".hair"), remark: part(".remark"), table: part(".values") });
    Object.assign(part("h3"), { textContent: title, title });
    Object.assign(part(".unit"), { textContent: unit, title: unit });
    this.press("log", this.isLog);
  }

  get isLog() { return this.article.dataset.log === "1"; }

  /** `view`: range, marks, revision; the same for every card of a grid. */
  async draw(figure, view) {
    Object.assign(this, { figure, view });
    const revision = `${view.revision} ${this.isLog} ${this.spread}`;
    await draw(this.article, figure, { ...view, isLog: this.isLog, spread: this.spread, revision });
    const hidden = this.isLog ? countHidden(figure) : 0;
    this.remark.hidden = !hidden;
    this.remark.textContent = `${hidden} ${hidden === 1 ? "value" : "values"} ≤ 0 not shown on a logarithmic axis`;
    this.plot.setAttribute("aria-label", summarise(this.article.dataset.title, figure));
    if (!this.table.hidden) this.#fillTable();
  }

  redraw() { return this.figure && this.draw(this.figure, this.view); }

  close() {
    window.Plotly?.purge(this.plot);
    this.article.replaceChildren();
  }

  /** A thin line at this x, or none; an element of our own, because a relayout of every chart would be felt. */
  point(x) {
    const axis = this.plot._fullLayout?.xaxis;
    const at = axis && x !== null ? axis.d2p(x) : -1;
    this.hair.hidden = !(at >= 0 && at <= axis?._length);
    if (!this.hair.hidden) this.hair.style.transform = `translateX(${this.plot.offsetLeft + axis._offset + at}px)`;
  }

  press(name, isPressed) { this.article.querySelector(`[data-do=${name}]`)?.setAttribute("aria-pressed", isPressed); }

  log() {
    this.article.dataset.log = this.isLog ? "0" : "1";
    this.spread = null;
    this.press("log", this.isLog);
    return this.redraw();
  }

  full(wanted = !this.article.classList.contains("full")) {
    this.article.classList.toggle("full", wanted);
    this.press("full", wanted);
    if (this.figure) Plotly.Plots.resize(this.plot);
  }

  values() {
    this.table.hidden = !this.table.hidden;
    if (!this.table.hidden) this.#fillTable();
  }

  csv() { save(new Blob([csvOf(this.figure)], { type: "text/csv" }), this.#fileName("csv")); }

  async png() { save(await this.#picture(), this.#fileName("png")); }

  /** Only pages that came over HTTPS, or from this machine, may write to the clipboard; else it is downloaded. */
  async copy() {
    if (!navigator.clipboard?.write) return this.png();
    await navigator.clipboard.write([new ClipboardItem({ "image/png": this.#picture() })]);
    this.remark.textContent = "Copied";
    this.remark.hidden = false;
  }

  #fillTable() { this.table.replaceChildren(tableOf(this.article.dataset.title, this.figure)); }

  #fileName(ending) { return `${this.article.dataset.chart.replaceAll(/[^\w.-]+/g, "-")}.${ending}`; }

  async #picture() {
    const { data, layout } = this.plot;
    const { title, unit } = this.article.dataset;
    const whole = {
      ...layout, paper_bgcolor: color("--sheet"), margin: { ...layout.margin, t: 56 }, width: 900, height: 480,
      title: { text: [title, unit].filter(Boolean).join(", ").replaceAll("<", "&lt;"), font: { size: 15 } },
    };
    const url = await Plotly.toImage({ data, layout: whole }, { format: "png", scale: 2 });
    const bytes = Uint8Array.from(atob(url.split(",", 2)[1]), (letter) => letter.charCodeAt(0));
    return new Blob([bytes], { type: "image/png" });
  }
}

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
