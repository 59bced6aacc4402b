// Before the first paint, and so not a module: the theme that was chosen, else the system's.
try {
  const chosen = localStorage.getItem("lbhash-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // A browser without storage follows the system.
}
