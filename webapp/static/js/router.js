// The router's section: heat maps of expert load, balance by layer, the run's history played back.
import { BalanceTable } from "./balance.js";
import { read } from "./live.js";
import { draw } from "./plot.js";

const element = (id) => document.getElementById(id);
const PLAY_MS = 350;

export class RouterView {
  constructor(url) {
    this.url = url;
    this.slider = element("router-step");
    this.steps = [];
    this.isLatest = true;
    this.table = new BalanceTable(element("balance"), (layer) => this.#choose(layer));
    this.slider.addEventListener("input", () => {
      this.isLatest = Number(this.slider.value) === this.steps.length - 1;
      this.#readNow();
    });
    element("router-layer").addEventListener("change", () => this.#readNow());
    element("measure").addEventListener("change", () => this.#readHistory());
    element("router-play").addEventListener("click", () => this.play());
    document.addEventListener("theme", () => this.#draw());
    this.observer = new IntersectionObserver(([entry]) => this.#seen(entry.isIntersecting), { rootMargin: "200px" });
    this.observer.observe(element("router"));
  }

  /** Read again, if it is in view; else when it comes there. */
  async refresh() {
    if (!this.isVisible) return;
    await this.#readNow();
    await this.#readHistory();
  }

  /** Step through the history from its start, or stop doing so. */
  play() {
    const button = element("router-play");
    const isPlaying = !this.timer;
    button.setAttribute("aria-pressed", isPlaying);
    button.textContent = isPlaying ? "■ stop" : "▶ play";
    if (!isPlaying) {
      clearInterval(this.timer);
      this.timer = null;
      return;
    }
    if (this.isLatest) this.slider.value = 0;
    this.timer = setInterval(() => {
      const next = Number(this.slider.value) + 1;
      if (next > Number(this.slider.max)) return this.play();
      this.slider.value = next;
      this.isLatest = next === Number(this.slider.max);
      this.#readNow();
    }, PLAY_MS);
  }

  #seen(isVisible) {
    const isNew = isVisible && !this.isVisible;
    this.isVisible = isVisible;
    if (isNew) this.refresh().catch(console.warn);
  }

  #choose(layer) {
    element("router-layer").value = layer;
    return this.#readNow();
  }

  async #readNow() {
    const query = new URLSearchParams();
    const layer = element("router-layer").value;
    if (layer) query.set("layer", layer);
    if (!this.isLatest) query.set("step", this.steps[this.slider.value]);
    this.answer = await read(`${this.url}/router?${query}`);
    if (this.answer.step === null) return;
    this.steps = this.answer.steps;
    this.slider.max = this.steps.length - 1;
    this.slider.disabled = element("router-play").disabled = this.steps.length < 2;
    if (this.isLatest) this.slider.value = this.slider.max;
    this.#say();
    this.table.show(this.answer.balance, this.answer.layer);
    await this.#draw();
  }

  async #readHistory() {
    this.history = await read(`${this.url}/router/history?measure=${element("measure").value}`);
    element("measure-unit").textContent = this.history.unit;
    await draw(element("balance-history"), this.history.figure);
  }

  #say() {
    const { step, worst_layer, balance, entropy, dead_experts, skip_share, tokens, shortfall } = this.answer;
    const part = (name, value, isAlarm) => {
      const span = document.createElement("span");
      const bold = document.createElement("b");
      bold.textContent = value;
      span.append(`${name} `, bold);
      if (isAlarm) span.className = "alarm";
      return span;
    };
    element("router-figures").replaceChildren(
      part("step", step.toLocaleString("en")),
      part("imbalance", `${balance[worst_layer].violation.toFixed(2)} in layer ${worst_layer}`),
      part("entropy", entropy.toFixed(3)),
      part("dead experts", dead_experts, dead_experts > 0),
      part("skipped", `${(100 * skip_share).toFixed(1)} %`),
      shortfall ? part("sums", shortfall, true) : part("each layer adds up to", `${tokens.toLocaleString("en")} tokens × top-1`),
    );
    element("layer-number").textContent = this.answer.layer;
  }

  async #draw() {
    if (!this.answer || this.answer.step === null) return;
    await draw(element("load"), this.answer.load);
    await draw(element("layer-load"), this.answer.layer_load);
    if (this.history) await draw(element("balance-history"), this.history.figure);
  }
}
