// What every page has: the theme switch, keyboard shortcuts, the mark at the page one is on, selects that submit.

document.getElementById("theme")?.addEventListener("click", () => window.switchTheme());

for (const link of document.querySelectorAll("[data-nav]")) {
  const here = location.pathname;
  const isHere = link.dataset.nav === "/" ? here === "/" || here.startsWith("/runs") : here.startsWith(link.dataset.nav);
  if (isHere) link.setAttribute("aria-current", "page");
}

for (const select of document.querySelectorAll("[data-submit]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

const actions = {
  r: () => location.assign("/"),
  n: () => location.assign("/runs/new"),
  o: () => location.assign("/nodes"),
  t: () => window.switchTheme(),
  "/": () => document.querySelector('input[type="search"]')?.focus(),
  "?": () => document.getElementById("keys").showModal(),
};

// A menu closes when one clicks elsewhere.
document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea, dialog[open]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
});
