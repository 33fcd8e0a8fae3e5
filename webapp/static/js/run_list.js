// Keep the rows of the list up to date.
import { follow, read, replace } from "./live.js";

const rows = document.getElementById("rows");

follow(null, async () => {
  const query = new URLSearchParams(location.search);
  query.set("rows", "1");
  replace(rows, await read(`${location.pathname}?${query}`, { as: "text" }));
});
