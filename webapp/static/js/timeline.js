// The timeline's links: other looks at it are read without the page; a step is shown on the charts.
import { readPart } from "./parts.js";

export function listenToTimeline(charts) {
  const part = document.querySelector("[data-part=timeline]");
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-look], a[data-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { step, time } = link.dataset;
    (step ? showStep(charts, { step: Number(step), time: Number(time) }) : look(part, link)).catch(console.warn);
  });
}

async function look(part, { search }) {
  part.dataset.query = search;
  history.replaceState(null, "", `${location.pathname}${search}#timeline`);
  await readPart(part);
  part.querySelector(".timeline").scrollTop = 0;
  document.getElementById("timeline").scrollIntoView({ block: "nearest" });
}

function showStep(charts, moment) {
  document.getElementById("charts").scrollIntoView();
  return charts.show(moment);
}
