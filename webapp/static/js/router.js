// The two heat maps of expert load, the figures beside them, and the run's history played back.
import { draw } from "./plot.js";
import { read } from "./live.js";

const element = (id) => document.getElementById(id);
const PLAY_MS = 350;

export class RouterView {
  constructor(url) {
    this.url = url;
    this.slider = element("router-step");
    this.steps = [];
    this.isLatest = true;
    this.slider.addEventListener("input", () => {
      this.isLatest = Number(this.slider.value) === this.steps.length - 1;
      this.refresh();
    });
    element("router-layer").addEventListener("change", () => this.refresh());
    element("router-play").addEventListener("click", () => this.play());
    document.addEventListener("theme", () => this.#draw());
  }

  async refresh() {
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
    await this.#draw();
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
      this.refresh();
    }, PLAY_MS);
  }

  #say() {
    const { step, worst_layer, worst_violation, entropy, dead_experts, skip_share, tokens } = this.answer;
    const part = (name, value, isAlarm) => {
      const span = document.createElement("span");
      const bold = document.createElement("b");
      bold.textContent = value;
      span.append(`${name} `, bold);
      if (isAlarm) span.className = "alarm";
      return span;
    };
    element("router-figures").replaceChildren(
      part("step", step),
      part("imbalance", `${worst_violation.toFixed(2)} in layer ${worst_layer}`),
      part("entropy", entropy.toFixed(3)),
      part("dead experts", dead_experts, dead_experts > 0),
      part("skipped", `${(100 * skip_share).toFixed(1)} %`),
      part("tokens a layer", tokens.toLocaleString("en")),
    );
    element("layer-number").textContent = this.answer.layer;
  }

  async #draw() {
    if (!this.answer || this.answer.step === null) return;
    await draw(element("load"), this.answer.load);
    await draw(element("layer-load"), this.answer.layer_load);
  }
}
