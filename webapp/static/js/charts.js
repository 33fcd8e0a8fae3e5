// Draw the charts near the view and no others: one request for all of them, one zoom, one cross-hair.
import { ChartCard } from "./chart_card.js";

const NEAR = "300px";
const POINTS_A_PIXEL = 1.5;
const MOST_AT_ONCE = 60;

export class ChartGrid {
  /**
   * `ask(ids, query)` gives figures by id. The query has x, smoothing, points and, when zoomed, from and to on that axis.
   * Set `x`, `smoothing` and `marks` at will, then call `refresh`.
   */
  constructor(ask) {
    Object.assign(this, { ask, x: "step", smoothing: 0, marks: [], range: null });
    this.cards = new Map();
    this.visible = new Set();
    this.observer = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: NEAR });
    document.addEventListener("theme", () => this.redraw());
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.#leaveFull());
  }

  /** Take charge of a placeholder: it is filled when it comes near the view. */
  adopt(article) { this.observer.observe(article); }

  drop(article) {
    this.observer.unobserve(article);
    this.#empty(article);
  }

  /** The card of a placeholder, if it is near the view. */
  card(article) { return this.cards.get(article); }

  async refresh(articles = [...this.visible]) {
    for (let at = 0; at < articles.length; at += MOST_AT_ONCE) await this.#read(articles.slice(at, at + MOST_AT_ONCE));
  }

  redraw() { return Promise.all([...this.visible].map((article) => this.cards.get(article).redraw())); }

  /** Show this range of x on every chart, at the resolution it deserves; null shows everything again. */
  zoom(range) {
    this.range = range;
    if (!range) for (const card of this.cards.values()) card.spread = null;
    return this.refresh();
  }

  async #read(articles) {
    const width = Math.max(...articles.map((article) => article.clientWidth));
    const query = new URLSearchParams({ x: this.x, smoothing: this.smoothing, points: Math.ceil(width * POINTS_A_PIXEL) });
    if (this.range) {
      query.set("from", this.range[0]);
      query.set("to", this.range[1]);
    }
    const view = { range: this.range, revision: `${this.x} ${this.range}` };
    const figures = await this.ask(articles.map((article) => article.dataset.chart), query);
    for (const article of articles) {
      const figure = figures[article.dataset.chart];
      const card = this.cards.get(article);
      if (!figure || !card) continue;
      await card.draw(figure, { ...view, marks: this.marks });
      this.#listen(card);
    }
  }

  #listen({ plot }) {
    if (plot.dataset.bound) return;
    plot.dataset.bound = "1";
    plot.on("plotly_relayout", (change) => this.#zoomed(plot, change));
    plot.on("plotly_doubleclick", () => this.zoom(null).catch(console.warn));
    plot.on("plotly_hover", (event) => this.#point(plot, event.points[0]?.x));
    plot.on("plotly_unhover", () => this.#point(plot, null));
  }

  /** A person dragged a box; what our own drawing changes comes here too, without these names. */
  #zoomed(plot, change) {
    if (change["xaxis.range[0]"] === undefined) return;
    const card = this.cards.get(plot.closest(".chart"));
    if (change["yaxis.range[0]"] !== undefined) card.spread = [change["yaxis.range[0]"], change["yaxis.range[1]"]];
    const numberOf = (end) => plot._fullLayout.xaxis.r2l(change[`xaxis.range[${end}]`]);  // dates come as text
    this.zoom([numberOf(0), numberOf(1)]).catch(console.warn);
  }

  #point(from, x) {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      for (const card of this.cards.values()) if (card.plot !== from) card.point(x ?? null);
    });
  }

  #seen(entries) {
    const fresh = [];
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !this.visible.has(target)) {
        this.visible.add(target);
        this.cards.set(target, new ChartCard(target));
        target.dispatchEvent(new CustomEvent("filled", { bubbles: true }));
        fresh.push(target);
      } else if (!isIntersecting && !target.classList.contains("full")) this.#empty(target);
    }
    if (fresh.length) this.refresh(fresh).catch(console.warn);
  }

  #empty(article) {
    this.visible.delete(article);
    this.cards.get(article)?.close();
    this.cards.delete(article);
  }

  #leaveFull() {
    for (const [article, card] of this.cards) if (article.classList.contains("full")) card.full(false);
  }
}
