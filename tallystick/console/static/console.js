// What moves: counters (server-sent events), their chart, the theme, the key that leads to the search.
"use strict";

const SHOWN_S = 180;
const POINTS = 100;
const thin = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function shown(value) {
  return value === null || value === undefined ? "–" : thin.format(value).replaceAll(",", "\u202f");
}

function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function drawnChart(place, points) {
  const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot(
    {
      width: place.clientWidth,
      height: place.clientHeight,
      cursor: { show: false },
      legend: { show: false },
      padding: [8, 8, 0, 0],
      scales: { x: { range: (_, __, last) => [last - SHOWN_S, last] }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
      axes: [{ ...axis, size: 28, space: 110, values: (_, ticks) => ticks.map((at) => clock.format(at * 1000)) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(shown) }],
      series: [{}, { stroke: colour("--accent"), fill: colour("--accent-wash"), width: 1.6, points: { show: false } }],
    },
    points,
    place,
  );
}

function watch(section) {
  const beat = section.querySelector("[data-beat]");
  const place = section.querySelector("[data-chart]");
  const points = [[], []];
  let chart = null;
  let source = null;
  let isOver = false;
  const redraw = () => {
    if (chart) chart.destroy();
    chart = points[0].length > 1 ? drawnChart(place, points) : null;
  };
  const off = (text) => {
    beat.className = "beat off";
    beat.textContent = text;
  };
  const stop = () => {
    if (source) source.close();
    source = null;
  };
  const heard = (event) => {
    const said = JSON.parse(event.data);
    if (said.over) {
      isOver = true;
      stop();
      return off("ended: you are logged out");
    }
    beat.className = said.problem ? "beat off" : "beat on";
    beat.textContent = said.problem || "live";
    if (said.problem) return;
    for (const one of document.querySelectorAll("[data-show]")) {
      if (one.dataset.show in said) one.textContent = one.dataset.show === "records" && said.records === null ? "many" : shown(said[one.dataset.show]);
    }
    const value = "offsets" in said ? said.offsets : said.rate;
    if (value === null) return;
    points[0].push(said.at / 1000);
    points[1].push(value);
    if (points[0].length > POINTS) points.forEach((column) => column.shift());
    place.dataset.points = points[0].length;
    if (chart) chart.setData(points);
    else redraw();
  };
  const failed = () => {
    if (source.readyState !== EventSource.CLOSED) return off("no answer; trying again");
    stop();
    off("no counters: open the page anew");
  };
  // A browser has six connections to a console: a page that nobody sees gives its one back.
  const look = () => {
    if (document.hidden || isOver) return stop();
    if (source) return;
    source = new EventSource(section.dataset.live);
    source.onmessage = heard;
    source.onerror = failed;
  };
  look();
  document.addEventListener("visibilitychange", look);
  addEventListener("resize", () => chart && chart.setSize({ width: place.clientWidth, height: place.clientHeight }));
  addEventListener("theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", look);
}

function themed() {
  const button = document.getElementById("theme");
  const said = button.querySelector("span");
  const show = () => (said.textContent = document.documentElement.dataset.theme || "system");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = { "": "light", light: "dark", dark: "" }[document.documentElement.dataset.theme || ""];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("theme", next);
    show();
    dispatchEvent(new Event("theme"));
  });
  show();
}

function keys(event) {
  const search = document.querySelector("[data-search]");
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  search.focus();
  search.select();
}

// A search that is not answered leaves a list that is not its own: that is said.
function unanswered(event) {
  const place = event.detail.target;
  const status = event.detail.xhr.status;
  if (status === 401) return;
  const note = document.createElement("p");
  note.className = "note bad";
  note.setAttribute("role", "alert");
  note.textContent = status ? `The console cannot answer this search (${status}).` : "The console does not answer.";
  place.replaceChildren(note);
}

document.querySelectorAll("[data-live]").forEach(watch);
themed();
addEventListener("keydown", keys);
addEventListener("htmx:responseError", unanswered);
addEventListener("htmx:sendError", unanswered);
