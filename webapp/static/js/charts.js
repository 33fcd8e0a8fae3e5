// Draw the charts near the view and no others: one request for all of them, one zoom, one cross-hair.
import { ChartCard } from "./chart_card.js";
import { loadPlotly } from "./plot.js";

const NEAR = "300px";
const POINTS_A_PIXEL = 1.5;
const FIRST_BATCH = 4;
const MOST_AT_ONCE = 32;

export class ChartGrid {
  /**
   * `ask(ids, query)` gives figures by id. The query has x, smoothing, points and, when zoomed, from and to on that axis.
   * Set `x`, `smoothing`, `replaced` and `marks` at will, then call `refresh`.
   */
  constructor(ask) {
    Object.assign(this, { ask, x: "step", smoothing: 0, replaced: false, marks: [], range: null, turn: 0, turns: new WeakMap() });
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

  /** Few charts first, then more and more at once: the server reads the next ones while these are drawn. */
  async refresh(articles = [...this.visible]) {
    const turn = ++this.turn;
    for (const article of articles) this.turns.set(article, turn);
    const batches = batchesOf(articles);
    let next = this.#ask(batches[0]);
    for (const [number, batch] of batches.entries()) {
      const figures = await next;
      next = this.#ask(batches[number + 1]);
      // Asked for again meanwhile, a chart waits for the newer answer.
      for (const article of batch) if (this.turns.get(article) === turn) await this.#draw(article, figures);
    }
  }

  redraw() { return Promise.all([...this.visible].map((article) => this.cards.get(article).redraw())); }

  /** Show this range of x on every chart, at the resolution it deserves; null shows everything again. */
  zoom(range) {
    this.range = range;
    if (!range) for (const card of this.cards.values()) card.spread = null;
    return this.refresh();
  }

  /** Figures by id, and the view they were asked for. A promise that may fail before anybody waits for it. */
  #ask(articles) {
    if (!articles) return null;
    const answer = this.#read(articles);
    answer.catch(() => {});
    loadPlotly().catch(() => {});
    return answer;
  }

  async #read(articles) {
    const width = Math.max(...articles.map((article) => article.clientWidth));
    const query = new URLSearchParams({ x: this.x, smoothing: this.smoothing, points: Math.ceil(width * POINTS_A_PIXEL) });
    if (this.replaced) query.set("replaced", 1);
    if (this.range) {
      query.set("from", this.range[0]);
      query.set("to", this.range[1]);
    }
    const view = { range: this.range, revision: `${this.x} ${this.range}` };
    return { figures: await this.ask(articles.map((article) => article.dataset.chart), query), view };
  }

  async #draw(article, { figures, view }) {
    const figure = figures[article.dataset.chart];
    const card = this.cards.get(article);
    if (!figure || !card) return;
    await card.draw(figure, { ...view, marks: this.marks });
    this.#listen(card);
    await painted();
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

function batchesOf(articles) {
  const batches = [];
  for (let at = 0, size = FIRST_BATCH; at < articles.length; at += size, size = Math.min(MOST_AT_ONCE, 2 * size)) {
    batches.push(articles.slice(at, at + size));
  }
  return batches;
}

/** Let the browser show what was drawn, and answer whoever clicks. */
const painted = () => new Promise((done) => { setTimeout(done); });
