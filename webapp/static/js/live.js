// One stream a page. It brings notices; what a page shows is read again, at most four times a second, never in a hidden tab.

const PAUSE_MS = 250;
// Three of the server's heartbeats: a laptop that slept has a stream that is dead and does not know it.
const SILENCE_MS = 45_000;

/** Call `refresh(topics)` when something changed; topics is a set, with "all" after every (re)connection. */
export function follow(runId, refresh) {
  const news = new Set();
  let timer = null;
  let isBusy = false;
  let flushedAt = -PAUSE_MS;

  const flush = async () => {
    timer = null;
    if (document.hidden || isBusy || !news.size) return;
    const topics = new Set(news);
    news.clear();
    isBusy = true;
    flushedAt = performance.now();
    try {
      await refresh(topics);
    } catch (error) {
      for (const topic of topics) news.add(topic);
      console.warn("refresh failed, tried again with the next notice", error);
    } finally {
      isBusy = false;
      if (news.size) schedule();
    }
  };
  const schedule = () => {
    timer ??= setTimeout(flush, Math.max(0, flushedAt + PAUSE_MS - performance.now()));
  };
  const tell = (topics) => {
    for (const topic of topics) news.add(topic);
    schedule();
  };

  listen(new URLSearchParams(runId ? { run: runId } : {}), document.body.dataset.place ?? "", tell);
  document.addEventListener("visibilitychange", () => schedule());
  return tell;
}

/**
 * Keep a stream open, from `place` on: where the page was made, or what was heard last. The browser reconnects by itself
 * and says so; silence is our own business.
 */
function listen(query, place, tell) {
  const stale = document.getElementById("stale");
  query.set("since", place);
  const source = new EventSource(`/live?${query}`);
  let silence = null;
  const alive = () => {
    stale.hidden = true;
    clearTimeout(silence);
    silence = setTimeout(() => {
      source.close();
      listen(query, place, tell);
    }, SILENCE_MS);
  };
  alive();
  source.addEventListener("beat", alive);
  source.addEventListener("notice", (event) => {
    alive();
    place = event.lastEventId;
    tell(JSON.parse(event.data).topics ?? ["all"]);
  });
  source.addEventListener("error", () => {
    stale.hidden = false;
    // The browser gives up on an answer that is no stream, such as during a restart.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
}

/** Fetch JSON or, with `as: "text"`, a fragment; a login that ran out leads to the login page. */
export async function read(url, { as = "json", signal } = {}) {
  const answer = await fetch(url, { headers: { Accept: "application/json, text/html" }, signal });
  if (answer.redirected && new URL(answer.url).pathname === "/login") location.reload();
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer[as]();
}

/** Show a fragment by changing only what differs: a click half done, the focus, a scroll, a question asked stay. */
export function replace(element, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  morph(element, fresh.content);
}

function morph(before, after) {
  let place = before.firstChild;
  for (const fresh of [...after.childNodes]) {
    const old = fresh.id ? [...before.children].find((child) => child.id === fresh.id) : place;
    if (!old || !isSame(old, fresh)) {
      before.insertBefore(fresh, place);
      continue;
    }
    if (old === place) place = place.nextSibling;
    else before.insertBefore(old, place);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      continue;
    }
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    morph(old, fresh);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Whether one may turn into the other: never a row, form or link into that of something else. */
function isSame(old, fresh) {
  if (old.nodeName !== fresh.nodeName || (old.id ?? "") !== (fresh.id ?? "")) return false;
  return ["action", "href"].every((name) => old.getAttribute?.(name) === fresh.getAttribute?.(name));
}
