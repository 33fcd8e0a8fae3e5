// Parts of the run's page that the server renders: each is read again with the query it was made with.
import { read, replace } from "./live.js";

const { url } = document.body.dataset;

/** An answer to a query that is not asked any more is not shown. */
export async function readPart(part) {
  const { part: name, query = "" } = part.dataset;
  const html = await read(`${url}/parts/${name}${query}`, { as: "text" });
  if ((part.dataset.query ?? "") === query) replace(part, html);
}
