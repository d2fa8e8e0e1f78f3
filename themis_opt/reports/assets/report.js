// Draws every figure in the colours of the page, and again when the page turns light or dark.
const figures = JSON.parse(document.getElementById("figures").textContent);
const darkness = matchMedia("(prefers-color-scheme: dark)");
const config = { responsive: true, displayModeBar: false };

function template() {
  const style = getComputedStyle(document.documentElement);
  const [ink, quiet, line, paper] = ["--ink", "--quiet", "--line", "--paper"].map(name => style.getPropertyValue(name).trim());
  const axis = {
    gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line,
    tickfont: { color: quiet }, title: { font: { color: quiet, size: 13 } },
  };
  return {
    layout: {
      paper_bgcolor: paper, plot_bgcolor: paper,
      font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      xaxis: axis, yaxis: axis,
      hoverlabel: { font: { family: "system-ui, sans-serif" } },
    },
  };
}

function painted(trace, colour) {
  if (trace.type === "heatmap") return { ...trace };
  const copy = { ...trace, line: { ...trace.line, color: colour } };
  if (trace.type === "bar") delete copy.line;
  if (trace.type !== "box") copy.marker = { ...trace.marker, color: colour };
  if (trace.fill || trace.type === "box") copy.fillcolor = colour + "33";
  return copy;
}

function draw() {
  const theme = darkness.matches ? "dark" : "light";
  const look = template();
  for (const [name, figure] of Object.entries(figures)) {
    const data = figure.data.map((trace, number) => painted(trace, figure.colours[number][theme]));
    Plotly.react(name, data, { ...structuredClone(figure.layout), template: look }, config);
  }
}

darkness.addEventListener("change", draw);
draw();
