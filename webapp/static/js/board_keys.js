// The keyboard on a board of charts: arrows go from card to card, letters do what the card's buttons do.

const DEEDS = { f: "full", l: "log", p: "pin", v: "values", e: "csv", s: "png", c: "copy" };
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function listenToKeys(board) {
  board.element.addEventListener("keydown", (event) => {
    const article = event.target.closest(".chart");
    if (!article || event.target !== article || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!press(board, article, event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function press(board, article, { key, shiftKey }) {
  if (key in DEEDS) board.act(article, DEEDS[key]);
  else if (key === "0") board.grid.zoom(null);
  else if (key in ARROWS && shiftKey) board.move(article.dataset.chart, ARROWS[key][0] || ARROWS[key][1] * rowLength(article));
  else if (key in ARROWS) go(board.element, article, ...ARROWS[key]);
  else return false;
  return true;
}

function go(element, article, right, down) {
  const all = [...element.querySelectorAll(".chart")];
  const places = right || down * rowLength(article);
  const target = all[all.indexOf(article) + places] ?? (places > 0 ? all.at(-1) : all[0]);
  article.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

const rowLength = (article) => getComputedStyle(article.parentElement).gridTemplateColumns.split(" ").length;
