// Draws every chart in the colours of the page, and again when the page turns light or dark, wide or narrow; in a closed
// part a chart has no width, and is drawn when the part is opened.
const data = document.getElementById("data").textContent;
const darkness = matchMedia("(prefers-color-scheme: dark)");
const narrowness = matchMedia("(max-width: 700px)");

function draw(within = document) {
  const { onDark } = JSON.parse(data);
  const { charts, config } = JSON.parse(data, (_, value) => (darkness.matches && onDark[value]) || value);
  if (narrowness.matches) {
    Object.assign(config.legend, { orient: "bottom", direction: "vertical" });
    Object.assign(config.axisXDiscrete, { labelAngle: -50 });
  }
  const options = {
    mode: "vega-lite", renderer: "svg", config, actions: false, defaultStyle: false,
    tooltip: { theme: darkness.matches ? "dark" : "light" },
    ast: true, // the page may not run texts as code
  };
  for (const [name, chart] of Object.entries(charts)) {
    const place = document.getElementById(name);
    if (!within.contains(place) || place.closest("details:not([open])")) continue;
    chart.params.find(parameter => parameter.name === "hover").value = true;
    vegaEmbed(place, chart, options);
  }
}

darkness.addEventListener("change", () => draw());
narrowness.addEventListener("change", () => draw());
document.addEventListener("toggle", event => event.target.open && draw(event.target), true);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));
draw();
