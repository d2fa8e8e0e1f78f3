// Draws every chart in the colours of the page, and again when the page turns light or dark, wide or narrow.
const data = document.getElementById("data").textContent;
const darkness = matchMedia("(prefers-color-scheme: dark)");
const narrowness = matchMedia("(max-width: 700px)");

function draw() {
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
    chart.params.find(parameter => parameter.name === "hover").value = true;
    vegaEmbed(document.getElementById(name), chart, options);
  }
}

darkness.addEventListener("change", draw);
narrowness.addEventListener("change", draw);
draw();
