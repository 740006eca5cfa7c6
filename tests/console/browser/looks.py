"""What can be known of a page's accessibility without looking at it, asked in the page itself."""

PROBLEMS = """() => {
  const found = [];
  const visible = (one) => one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const told = (one) => one.outerHTML.slice(0, 90);
  if (document.querySelectorAll("main h1").length !== 1) found.push("not one h1");
  for (const landmark of ["main", "header", "nav[aria-label]"]) {
    if (!document.querySelector(landmark)) found.push("no " + landmark);
  }
  if (!document.documentElement.lang) found.push("no language");
  for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (visible(one) && !one.labels.length && !one.getAttribute("aria-label")) found.push("no label: " + told(one));
  }
  for (const one of document.querySelectorAll("a[href], button")) {
    if (visible(one) && !one.textContent.trim() && !one.getAttribute("aria-label")) found.push("no name: " + told(one));
    if (one.tabIndex < 0) found.push("not reached by keys: " + told(one));
  }
  for (const one of document.querySelectorAll("svg, img, [data-chart]")) {
    const named = one.getAttribute("aria-label") || one.getAttribute("alt") || one.getAttribute("aria-hidden");
    if (!named) found.push("a picture without words: " + told(one));
  }
  for (const one of document.querySelectorAll("table")) {
    if (!one.querySelector("thead th[scope=col]")) found.push("a table without heads: " + told(one));
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  if (new Set(ids).size !== ids.length) found.push("an id twice: " + ids);
  for (const one of document.querySelectorAll("[aria-labelledby]")) {
    if (!document.getElementById(one.getAttribute("aria-labelledby"))) found.push("named by nothing: " + told(one));
  }
  return found;
}"""
"""Sentences; none where all is well."""

FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (above, below) => above.slice(0, 3).map((one, at) => one * above[3] + below[at] * (1 - above[3]));
  const ground = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [red, green, blue] = colour.map((one) => {
      const part = one / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.checkVisibility()) continue;
    if (one.closest("script, noscript, svg, .skip, .hidden, option, title") || one.closest(".pages > span")) continue;
    const below = ground(one);
    const [ink, paper] = [light(over(rgba(getComputedStyle(one).color), below)), light(below)];
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (ratio < 4.5) found.add(ratio.toFixed(2) + ": " + one.outerHTML.slice(0, 90));
  }
  return [...found];
}"""
"""Texts that stand out too little from what is behind them (WCAG 2.2, 1.4.3); links that lead nowhere are left out."""
