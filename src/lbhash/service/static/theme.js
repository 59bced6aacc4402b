// Sets the chosen theme, or else the system's. Not a module, so that it runs before the first paint.
try {
  const chosen = localStorage.getItem("lbhash-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // A browser without storage uses the system's theme.
}
