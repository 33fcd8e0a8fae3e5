// The charts of one run: what they ask the server, what the user sets above them, what the server keeps.
import { ChartBoard } from "./board.js";
import { ChartGrid } from "./charts.js";
import { read } from "./live.js";

const SETTLE_MS = 120;
// How far one sees around a moment: a share of the way to it, and not less than so many steps or seconds.
const NEAR = 0.05;
const LEAST_STEPS = 20;
const element = (id) => document.getElementById(id);

export class RunCharts {
  constructor(url) {
    this.url = url;
    this.marks = [];
    this.grid = new ChartGrid((ids, query) => this.#ask(ids, query));
    this.board = new ChartBoard(element("chart-board"), this.grid, (charts) => this.#keep("", { charts }));
    this.#listen();
    this.#show(JSON.parse(element("board").textContent));
  }

  refresh() { return this.grid.refresh(); }

  async readMarks() {
    this.marks = await read(`${this.url}/marks`);
    this.#placeMarks();
  }

  /** Zoom to what happened at this step. */
  show(moment) {
    const at = this.#placeOf(moment);
    const steps = Math.max(LEAST_STEPS, moment.step * NEAR);
    const seconds = Math.max(LEAST_STEPS, (moment.time - this.started) * NEAR);
    const half = { step: steps, tokens: steps * this.tokensPerStep, time: seconds * 1000, relative: seconds }[this.grid.x];
    return this.grid.zoom([at - half, at + half]);
  }

  async #readBoard() { this.#show(await read(`${this.url}/board`)); }

  #show({ charts, pins, num_keys, tokens_per_step, started }) {
    Object.assign(this, { numKeys: num_keys, tokensPerStep: tokens_per_step, started });
    this.board.show(charts, pins);
  }

  async #ask(ids, query) {
    for (const id of ids) query.append("ids", id);
    const { figures, num_keys } = await read(`${this.url}/charts?${query}`);
    if (num_keys !== this.numKeys) this.#readBoard().catch(console.warn);
    return figures;
  }

  #placeMarks() {
    const isWanted = element("chart-marks").checked;
    if (!this.marks.length && !this.grid.marks.length) return null;
    this.grid.marks = isWanted ? this.marks.map((mark) => ({ ...mark, x: this.#placeOf(mark) })) : [];
    for (const card of this.grid.cards.values()) if (card.view) card.view.marks = this.grid.marks;
    return this.grid.redraw();
  }

  #placeOf({ step, time }) {
    const places = { step, tokens: step * this.tokensPerStep, time: time * 1000, relative: time - this.started };
    return places[this.grid.x];
  }

  #listen() {
    const smoothing = element("smoothing");
    smoothing.value = localStorage.getItem("smoothing") ?? smoothing.value;
    this.grid.smoothing = smoothing.value;
    smoothing.addEventListener("input", () => {
      localStorage.setItem("smoothing", smoothing.value);
      this.grid.smoothing = smoothing.value;
      clearTimeout(this.settling);
      this.settling = setTimeout(() => this.refresh().catch(console.warn), SETTLE_MS);
    });
    element("x-axis").addEventListener("change", ({ target }) => {
      this.grid.x = target.value;
      this.#placeMarks();
      this.grid.zoom(null).catch(console.warn);
    });
    element("chart-marks").addEventListener("change", () => this.#placeMarks());
    const replaced = element("chart-replaced");
    replaced.checked = this.grid.replaced = localStorage.getItem("replaced") === "1";
    replaced.addEventListener("change", () => {
      localStorage.setItem("replaced", replaced.checked ? "1" : "0");
      this.grid.replaced = replaced.checked;
      this.refresh().catch(console.warn);
    });
    element("chart-search").addEventListener("input", ({ target }) => this.board.find(target.value));
    element("pins-default").addEventListener("click", () => this.#keep("?default", { charts: this.board.pins }));
    element("pins-forget").addEventListener("click", () => this.#keep("", null).then(() => this.#readBoard()));
  }

  /** Keep the pins of this run or, with `?default`, of all; null forgets both. */
  async #keep(query, body) {
    const token = document.querySelector("#own [name=csrfmiddlewaretoken]").value;
    const options = { method: body ? "POST" : "DELETE", headers: { "X-CSRFToken": token }, body: body && JSON.stringify(body) };
    const answer = await fetch(`${this.url}/pins${query}`, options);
    if (!answer.ok) console.warn("the pins were not kept", await answer.text());
  }
}
