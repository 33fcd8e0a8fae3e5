// Draw one metric of many runs in the page's colours; past the sixth run the dash tells it from the first.

export const NUM_COLORS = 6;
export const DASHES = ["solid", "dash", "dot", "dashdot"];
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function drawLines(plot, { data, layout }, { isLog = false, revision = "" } = {}) {
  const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line-2"), automargin: true, tickfont: { size: 11 } };
  return Plotly.react(plot, data.map(dress), {
    ...layout,
    margin: { l: 46, r: 14, t: layout.showlegend ? 26 : 8, b: 30 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: color("--font"), size: 12, color: color("--ink-2") },
    hoverlabel: { bgcolor: color("--sheet"), bordercolor: color("--line-2"), font: { color: color("--ink"), size: 12 }, namelength: 40 },
    legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis, type: isLog ? "log" : "linear" },
    uirevision: `${revision} ${isLog}`,
  }, CONFIG);
}

function dress(trace) {
  const tone = color(`--s${trace.meta % NUM_COLORS}`);
  const dash = DASHES[Math.floor(trace.meta / NUM_COLORS) % DASHES.length];
  return {
    ...trace,
    line: { width: 1.6, color: tone, dash, ...trace.line },
    fillcolor: trace.fill ? tone : undefined,
    marker: { color: tone, size: 6 },
  };
}
