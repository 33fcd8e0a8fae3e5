// The run's page: charts, router, log and parts, each read again when the stream says that it changed.
import { follow } from "./live.js";
import { LogView } from "./log.js";
import { RouterView } from "./router.js";
import { readPart } from "./parts.js";
import { RunCharts } from "./run_charts.js";
import { listenToTimeline } from "./timeline.js";

const { run, url } = document.body.dataset;
const charts = new RunCharts(url);
const router = new RouterView(url);
const log = new LogView(url);

// The page came with its parts; the rest it reads now, and what changed since it was made the stream tells.
charts.readMarks().catch(console.warn);
log.refresh().catch(console.warn);

follow(run, async (topics) => {
  const has = (...names) => topics.has("all") || names.some((name) => topics.has(name));
  const parts = [...document.querySelectorAll("[data-part]")].filter((part) => has(...part.dataset.topics.split(" ")));
  await Promise.all([
    has("metrics") && charts.refresh(),
    ...parts.map(readPart),
    has("events", "checkpoints", "state") && charts.readMarks(),
    has("router") && router.refresh(),
    has("logs") && log.refresh(),
  ]);
});

listenToTimeline(charts);

document.getElementById("copy-config").addEventListener("click", async (event) => {
  await navigator.clipboard.writeText(document.getElementById("config-toml").textContent);
  event.target.textContent = "Copied";
  setTimeout(() => { event.target.textContent = "Copy as TOML"; }, 1500);
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (!question) return;
  event.preventDefault();
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.addEventListener("close", () => dialog.returnValue === "yes" && event.target.submit(), { once: true });
});
