// The run's page: charts, router, log and parts, each read again when the stream says that it changed.
import { ChartGrid } from "./charts.js";
import { follow, read, replace } from "./live.js";
import { LogView } from "./log.js";
import { RouterView } from "./router.js";

const { run, url } = document.body.dataset;
const charts = new ChartGrid(document.getElementById("chart-grid"), url);
const router = new RouterView(url);
const log = new LogView(url);

follow(run, async (topics) => {
  const has = (...names) => topics.has("all") || names.some((name) => topics.has(name));
  const parts = [...document.querySelectorAll("[data-part]")].filter((part) => has(...part.dataset.topics.split(" ")));
  await Promise.all([
    ...parts.map(async (part) => replace(part, await read(`${url}/parts/${part.dataset.part}`, { as: "text" }))),
    has("metrics") && charts.refresh(),
    has("router") && router.refresh(),
    has("logs") && log.refresh(),
  ]);
});

const smoothing = document.getElementById("smoothing");
smoothing.value = localStorage.getItem("smoothing") ?? smoothing.value;
charts.smoothing = smoothing.value;
smoothing.addEventListener("change", () => {
  localStorage.setItem("smoothing", smoothing.value);
  charts.smoothing = smoothing.value;
  charts.refresh();
});
document.getElementById("x-axis").addEventListener("change", (event) => {
  charts.x = event.target.value;
  charts.refresh();
});
document.getElementById("add-chart")?.addEventListener("change", (event) => {
  const known = [...document.getElementById("other-keys").options].some((option) => option.value === event.target.value);
  if (known) charts.add(event.target.value);
  event.target.value = "";
});

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
