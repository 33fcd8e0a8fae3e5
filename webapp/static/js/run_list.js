// Keep the rows of the list up to date, complete names in the query, and say how many runs are selected.
import { complete } from "./complete.js";
import { follow, read, replace } from "./live.js";

const rows = document.getElementById("rows");
const selection = document.getElementById("selection");
const names = [...document.getElementById("names").options].map((option) => option.value);

complete(document.getElementById("query"), names);

function count() {
  const chosen = rows.querySelectorAll("input[name=runs]:checked").length;
  selection.hidden = chosen === 0;
  document.getElementById("num-chosen").textContent = `${chosen} run${chosen === 1 ? "" : "s"} selected`;
}

rows.addEventListener("change", count);
count();

follow(null, async () => {
  const query = new URLSearchParams(location.search);
  query.set("rows", "1");
  replace(rows, await read(`${location.pathname}?${query}`, { as: "text" }));
  count();
});
