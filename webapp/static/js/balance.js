// The table of layers by their balance: sorted by any column, a row chosen by click or Enter.

const COLUMNS = ["layer", "violation", "entropy", "dead", "overloaded", "skip_share", "bias_spread"];
const SHOWN = {
  violation: (value) => value.toFixed(2), entropy: (value) => value.toFixed(3),
  skip_share: (value) => `${(100 * value).toFixed(1)} %`, bias_spread: (value) => value.toPrecision(3),
};

export class BalanceTable {
  /** `choose(layer)` is called with the layer of a row. */
  constructor(table, choose) {
    Object.assign(this, { table, choose, rows: [], key: "violation", isDown: true });
    table.addEventListener("click", ({ target }) => {
      const key = target.closest("[data-sort]")?.dataset.sort;
      if (key) return this.#sort(key);
      const layer = target.closest("[data-layer]")?.dataset.layer;
      if (layer !== undefined) this.choose(layer);
    });
  }

  show(rows, chosen) {
    Object.assign(this, { rows, chosen });
    this.#render();
  }

  /** A second click turns the order; the first shows the worst first, which for entropy is the least. */
  #sort(key) {
    const worstFirst = key !== "entropy" && key !== "layer";
    this.isDown = key === this.key ? !this.isDown : worstFirst;
    this.key = key;
    this.#render();
  }

  #render() {
    const sign = this.isDown ? -1 : 1;
    const rows = [...this.rows].sort((one, other) => sign * (one[this.key] - other[this.key]) || one.layer - other.layer);
    const body = this.table.tBodies[0];
    while (body.rows.length > rows.length) body.lastElementChild.remove();
    while (body.rows.length < rows.length) body.append(emptyRow());
    rows.forEach((row, at) => fill(body.rows[at], row, row.layer === this.chosen));
    for (const button of this.table.querySelectorAll("[data-sort]")) {
      const isKey = button.dataset.sort === this.key;
      button.closest("th").setAttribute("aria-sort", isKey ? (this.isDown ? "descending" : "ascending") : "none");
    }
  }
}

/** Rows are filled anew and never replaced, so that a click meets the row it was meant for. */
function emptyRow() {
  const row = document.createElement("tr");
  const button = Object.assign(document.createElement("button"), { type: "button", className: "plain" });
  for (const _ of COLUMNS) row.insertCell().className = "num";
  row.cells[0].append(button);
  return row;
}

function fill(line, row, isChosen) {
  line.dataset.layer = row.layer;
  line.toggleAttribute("aria-current", isChosen);
  line.cells[0].firstElementChild.textContent = row.layer;
  COLUMNS.slice(1).forEach((name, at) => {
    const cell = line.cells[at + 1];
    cell.textContent = SHOWN[name]?.(row[name]) ?? row[name];
    cell.classList.toggle("alarm", name === "dead" && row[name] > 0);
  });
}
