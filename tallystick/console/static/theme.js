// Before the page is drawn: light or dark, where somebody has chosen; otherwise the system says.
"use strict";
(function () {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
