// The numbers behind a figure: a summary in words, a table, a CSV that no spreadsheet takes for formulas.

const MOST_ROWS = 200;

/** Rows {x, name, value, low, high} of a figure, raw values where the line is smoothed. */
export const rowsOf = (figure) => linesOf(figure).flat();

/** The rows of each line; those of what was done again come last. */
function linesOf(figure) {
  const parts = (role) => figure.data.filter((trace) => trace.meta?.role === role);
  const lines = parts("line").sort((one, other) => (one.meta.attempt ?? 0) - (other.meta.attempt ?? 0));
  return lines.map((line) => {
    const { series, attempt } = line.meta;
    const of = (role) => parts(role).find(({ meta }) => meta.series === series && meta.attempt === attempt);
    const name = [figure.layout.meta?.[series], attempt && `attempt ${attempt}`].filter(Boolean).join(", ");
    const words = new Map(of("marks")?.x.map((x, at) => [x, of("marks").text[at]]));
    const extremes = bandOf(of("band"));
    return (of("raw") ?? line).y.map((y, at) => {
      const x = line.x[at];
      const [low, high] = extremes.get(x) ?? [y, y];
      return { x, name, value: y ?? words.get(x) ?? "", low: low ?? "", high: high ?? "" };
    });
  });
}

/** A band runs along its upper edge and back along its lower one. */
function bandOf(band) {
  const count = (band?.x.length ?? 0) / 2;
  return new Map(Array.from({ length: count }, (_, at) => [band.x[at], [band.y[2 * count - 1 - at], band.y[at]]]));
}

/** How many values a logarithmic axis cannot show. */
export const countHidden = (figure) => rowsOf(figure).filter(({ value }) => typeof value === "number" && value <= 0).length;

/** One sentence a series, for who cannot see the line. */
export function summarise(title, figure) {
  const byName = Map.groupBy?.(rowsOf(figure), (row) => row.name) ?? new Map();
  const sentences = [...byName].map(([name, rows]) => {
    const numbers = rows.map((row) => row.value).filter((value) => typeof value === "number");
    if (!numbers.length) return `${name}: no finite value`;
    const [least, most] = numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    return `${name}: ${short(numbers.at(-1))} at ${short(rows.at(-1).x)}, between ${short(least)} and ${short(most)}`;
  });
  return [title, ...sentences].join(". ");
}

export function tableOf(title, figure) {
  const lines = linesOf(figure);
  const most = Math.ceil(MOST_ROWS / lines.length);
  const table = document.createElement("table");
  const cut = lines.some((rows) => rows.length > most) ? `, the last ${most} rows of each line; the CSV has all` : "";
  table.createCaption().textContent = title + cut;
  const head = table.createTHead().insertRow();
  for (const name of ["x", "series", "value", "least", "greatest"]) {
    head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name }));
  }
  const body = table.createTBody();
  for (const row of lines.flatMap((rows) => rows.slice(-most))) {
    const line = body.insertRow();
    for (const cell of [row.x, row.name, row.value, row.low, row.high]) line.insertCell().textContent = short(cell);
  }
  return table;
}

export function csvOf(figure) {
  const lines = rowsOf(figure).map((row) => [row.x, quoted(row.name), row.value, row.low, row.high].join(","));
  return ["x,series,value,least,greatest", ...lines].join("\n");
}

/** A cell that begins like a formula gets an apostrophe, which spreadsheets take for "this is text". */
function quoted(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

function short(value) {
  if (typeof value !== "number") return value;
  const isFar = value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e12);
  return isFar ? value.toExponential(4) : value.toLocaleString("en", { maximumSignificantDigits: 6 });
}
