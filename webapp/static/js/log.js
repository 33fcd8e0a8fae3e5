// The tail of the log: new lines are added below, at most so many kept; text is text, colours are the only markup.
import { read } from "./live.js";

const KEPT = 2000;
const PAGE = 500;
const ANSI = /\u001b\[([0-9;]*)m/;
// Other escape sequences move cursors or set titles; here they mean nothing.
const OTHER_ESCAPES = /\u001b(?:\[[0-9;?]*[A-Za-ln-z]|\][^\u0007]*(?:\u0007|$)|[@-Z\\^_])/g;

export class LogView {
  constructor(url) {
    this.url = url;
    this.lines = document.getElementById("log-lines");
    this.last = null;
    for (const id of ["log-search", "log-level"]) {
      document.getElementById(id).addEventListener("input", () => this.#restart());
    }
  }

  async refresh() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    let isMore = true;
    while (isMore && turn === this.turn) isMore = await this.#readOn(turn);
  }

  /** Append what came since the last line shown; true when there may be more. A later turn makes this one void. */
  async #readOn(turn) {
    const query = new URLSearchParams({
      search: document.getElementById("log-search").value, level: document.getElementById("log-level").value,
    });
    if (this.last !== null) query.set("after", this.last);
    const lines = await read(`${this.url}/log?${query}`);
    if (turn !== this.turn) return false;
    const isMore = this.last !== null && lines.length === PAGE;
    if (this.last === null) this.lines.replaceChildren();
    this.lines.append(...lines.map(row));
    while (this.lines.childElementCount > KEPT) this.lines.firstElementChild.remove();
    if (lines.length) this.last = lines.at(-1)[0];
    if (!this.lines.childElementCount) this.lines.append(row([0, null, "", "", "", "Nothing yet."]));
    if (document.getElementById("log-follow").checked) this.lines.scrollTop = this.lines.scrollHeight;
    return isMore;
  }

  #restart() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.last = null;
      this.refresh();
    }, 200);
  }
}

function row([, time, level, source, , text]) {
  const line = document.createElement("div");
  line.className = level;
  const at = span("at", time ? new Date(time).toISOString().slice(11, 19) : "");
  if (time) at.title = time;
  const body = span("text", "");
  body.append(...colored(text));
  line.append(at, span("from", source), body);
  return line;
}

function span(className, text) {
  return Object.assign(document.createElement("span"), { className, textContent: text });
}

/** Split a line at its colour codes. */
function colored(text) {
  const pieces = text.replace(OTHER_ESCAPES, "").split(ANSI);
  const parts = [document.createTextNode(pieces[0])];
  for (let at = 1; at < pieces.length; at += 2) {
    const classes = pieces[at].split(";").filter((code) => code && code !== "0").map((code) => `ansi-${Number(code)}`);
    parts.push(span(classes.join(" "), pieces[at + 1]));
  }
  return parts;
}
