// The board of charts: pinned ones on top in the user's order, the others in groups by the first part of their key.
import { placeholder } from "./chart_card.js";
import { listenToKeys } from "./board_keys.js";

const FEW = 6;

export class ChartBoard {
  /** `keep(pins)` stores the user's pins. */
  constructor(element, grid, keep) {
    Object.assign(this, { element, grid, keep, charts: new Map(), pins: [], articles: new Map(), search: "", choice: new Map() });
    element.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this.act(button.closest(".chart"), button.dataset.do);
    });
    element.addEventListener("filled", ({ target }) => this.#markPin(target));
    this.#listenToDragging();
    listenToKeys(this);
  }

  /** Show these charts ({id, title, unit, keys}), those of `pins` first. */
  show(charts, pins) {
    this.charts = new Map(charts.map((chart) => [chart.id, chart]));
    this.pins = pins;
    this.#render();
  }

  /** Show only charts whose title or key has every word. */
  find(text) {
    this.search = text.toLowerCase();
    this.#render();
  }

  act(article, name) {
    if (name === "pin") return this.togglePin(article.dataset.chart);
    article.querySelector("details.menu")?.removeAttribute("open");
    return Promise.resolve(this.grid.card(article)?.[name]()).catch(console.warn);
  }

  togglePin(id) {
    const isPinned = this.pins.includes(id);
    this.#keep(isPinned ? this.pins.filter((pin) => pin !== id) : [...this.pins, id]);
    this.articles.get(id)?.focus();
  }

  /** Move a pinned chart by so many places. */
  move(id, places) {
    const from = this.pins.indexOf(id);
    const to = Math.max(0, Math.min(this.pins.length - 1, from + places));
    if (from >= 0 && from !== to) this.#place(id, to);
  }

  #place(id, to) {
    const others = this.pins.filter((pin) => pin !== id);
    this.#keep(others.toSpliced(to, 0, id));
    this.articles.get(id).focus();
  }

  #keep(pins) {
    this.pins = pins;
    this.#render();
    this.keep(pins);
  }

  #render() {
    const groups = new Map([["Pinned", this.pins.filter((id) => this.charts.has(id))], ...groupsOf(this.charts, this.pins)]);
    const shown = new Set();
    for (const [name, ids] of groups) {
      const found = ids.filter((id) => this.#matches(id));
      const group = this.#group(name);
      if (this.element.lastElementChild !== group) this.element.append(group);
      group.hidden = !found.length;
      group.querySelector(".count").textContent = found.length === ids.length ? ids.length : `${found.length} of ${ids.length}`;
      group.open = this.choice.get(name) ?? (name === "Pinned" || Boolean(this.search) || (ids.length <= FEW && groups.size <= FEW));
      const cards = group.open ? found : [];
      replaceDiffering(group.querySelector(".charts"), cards.map((id) => this.#article(id)));
      for (const id of cards) shown.add(id);
    }
    for (const group of this.element.querySelectorAll(".group")) if (!groups.has(group.dataset.group)) group.remove();
    for (const [id, article] of this.articles) if (!shown.has(id)) this.grid.drop(article);
    this.element.querySelector(".nothing").hidden = Boolean(shown.size || this.#hasMatch(groups));
    for (const article of this.articles.values()) article.tabIndex = -1;
    const first = this.element.querySelector(".chart");
    if (first) first.tabIndex = 0;
  }

  #hasMatch(groups) { return [...groups.values()].some((ids) => ids.some((id) => this.#matches(id))); }

  #matches(id) {
    const { title, keys } = this.charts.get(id);
    const text = [title, ...keys].join(" ").toLowerCase();
    return this.search.split(/\s+/).every((word) => text.includes(word));
  }

  #group(name) {
    const known = [...this.element.querySelectorAll(".group")].find((group) => group.dataset.group === name);
    if (known) return known;
    const group = document.createElement("details");
    group.className = "group";
    group.dataset.group = name;
    group.innerHTML = '<summary><h3></h3> <span class="count quiet"></span></summary><div class="charts"></div>';
    group.querySelector("h3").textContent = name;
    group.querySelector("summary").addEventListener("click", (event) => {
      event.preventDefault();
      this.choice.set(name, !group.open);
      this.#render();
    });
    return group;
  }

  #article(id) {
    if (!this.articles.has(id)) {
      const article = placeholder(this.charts.get(id));
      this.articles.set(id, article);
    }
    const article = this.articles.get(id);
    this.grid.adopt(article);
    this.#markPin(article);
    return article;
  }

  #markPin(article) {
    const isPinned = this.pins.includes(article.dataset.chart);
    const header = article.querySelector("header");
    if (!header) return;
    header.draggable = isPinned;
    const button = article.querySelector("[data-do=pin]");
    button.setAttribute("aria-pressed", isPinned);
    button.textContent = isPinned ? "★" : "☆";
  }

  #listenToDragging() {
    const pinnedAt = (event) => {
      const article = event.target.closest?.('[data-group="Pinned"] .chart');
      return this.dragged && article;
    };
    this.element.addEventListener("dragstart", (event) => {
      this.dragged = event.target.closest(".chart")?.dataset.chart;
      event.dataTransfer?.setData("text/plain", this.dragged);
    });
    this.element.addEventListener("dragend", () => { this.dragged = null; });
    this.element.addEventListener("dragover", (event) => pinnedAt(event) && event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      const target = pinnedAt(event);
      if (!target) return;
      event.preventDefault();
      this.#place(this.dragged, this.pins.indexOf(target.dataset.chart));
    });
  }
}

/** Charts that are not pinned, by the part of their first key before the slash; keys without one are "general". */
function groupsOf(charts, pins) {
  const pinned = new Set(pins);
  const prefixes = new Set([...charts.values()].flatMap(({ keys }) => keys).filter((key) => key.includes("/")).map(firstPart));
  const groups = new Map();
  for (const [id, { keys }] of charts) {
    if (pinned.has(id)) continue;
    const name = prefixes.has(firstPart(keys[0])) ? firstPart(keys[0]) : "general";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(id);
  }
  for (const ids of groups.values()) ids.sort(naturally);
  return [...groups].sort(([one], [other]) => naturally(one, other));
}

/** What stays where it is keeps its focus. */
function replaceDiffering(element, children) {
  const isSame = element.children.length === children.length && children.every((child, at) => element.children[at] === child);
  if (!isSame) element.replaceChildren(...children);
}

/** layer2 comes before layer10. */
const naturally = new Intl.Collator("en", { numeric: true }).compare;
const firstPart = (key) => key.split("/", 1)[0];
