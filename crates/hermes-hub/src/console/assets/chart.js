// The chart of the usage page, made of its table: nothing is asked of the server.

const place = document.getElementById("usage-chart");
const table = place && document.getElementById(place.dataset.table);
if (table && window.uPlot) {
  const names = [...table.querySelectorAll("th[data-series]")].map((head) => head.textContent);
  const rows = [...table.querySelectorAll("tbody tr")];
  const days = rows.map((row) => Date.parse(`${row.dataset.key}T00:00:00Z`) / 1000);
  const values = names.map((_, at) =>
    rows.map((row) => Number(row.querySelectorAll("td[data-value]")[at].dataset.value)));
  // Colours are written twice, for light and dark: an element says which one holds.
  const resolve = (name) => {
    const probe = document.createElement("span");
    probe.className = `ink-${name}`;
    place.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  place.hidden = false;
  for (const plain of document.querySelectorAll("[data-plain-charts]")) plain.hidden = true;
  const strokes = [resolve("quiet"), resolve("accent"), resolve("good")];
  const axis = { stroke: resolve("quiet"), grid: { stroke: resolve("line"), width: 1 }, ticks: { stroke: resolve("line"), width: 1 } };
  const number = new Intl.NumberFormat(document.documentElement.lang, { notation: "compact" });
  const plot = new uPlot({
    width: place.clientWidth,
    height: 280,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, most || 1] }, runs: { range: (_, __, most) => [0, most || 1] } },
    axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => number.format(tick)) }],
    series: [{ label: table.querySelector("th").textContent, value: "{YYYY}-{MM}-{DD}" }, ...names.map((label, at) => ({
      label,
      scale: at === 0 ? "runs" : "y",
      stroke: strokes[at],
      width: 2,
      dash: at === 0 ? [6, 4] : undefined,
    }))],
  }, [days, ...values], place);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 280 })).observe(place);
}
