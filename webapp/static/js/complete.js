// Complete the word before the caret from a list of names: arrows to choose, Tab or Enter to take, Escape to close.

const MOST = 8;
const WORD = /[^\s()"<>=:!]+$/;

export function complete(input, names) {
  const list = document.createElement("ul");
  list.className = "sheet completions";
  list.id = `${input.id}-names`;
  list.setAttribute("role", "listbox");
  list.hidden = true;
  input.after(list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" })) input.setAttribute(name, value);
  let at = -1;

  const word = () => input.value.slice(0, input.selectionStart).match(WORD)?.[0] ?? "";

  const show = (found) => {
    at = -1;
    list.replaceChildren(...found.map((name, index) => {
      const item = Object.assign(document.createElement("li"), { id: `${list.id}-${index}`, textContent: name });
      item.setAttribute("role", "option");
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(name); });
      return item;
    }));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
  };

  const move = (by) => {
    at = (at + by + list.children.length) % list.children.length;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    input.setAttribute("aria-activedescendant", list.children[at].id);
  };

  const take = (name) => {
    const end = input.selectionStart;
    input.setRangeText(name, end - word().length, end, "end");
    show([]);
  };

  input.addEventListener("input", () => {
    const typed = word().toLowerCase();
    const near = names.filter((name) => name.toLowerCase().includes(typed) && name !== typed);
    near.sort((one, other) => other.toLowerCase().startsWith(typed) - one.toLowerCase().startsWith(typed));
    show(typed ? near.slice(0, MOST) : []);
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1);
    else if (event.key === "Tab" && !event.shiftKey) take(list.children[Math.max(0, at)].textContent);
    else if (event.key === "Enter" && at >= 0) take(list.children[at].textContent);
    else if (event.key === "Escape") show([]);
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", () => show([]));
}
