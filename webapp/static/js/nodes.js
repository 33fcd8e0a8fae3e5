// Keep the nodes up to date: with every notice, and every five seconds for the leases.
import { follow, read, replace } from "./live.js";

const tell = follow(null, async () => {
  replace(document.getElementById("rows"), await read("/nodes?rows=1", { as: "text" }));
});
setInterval(() => tell(["all"]), 5000);
