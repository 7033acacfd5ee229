// The light or dark theme: the choice of the reader, or else the setting of the system.
(() => {
  const KEY = "bert-keras-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  // Browsers that block storage raise an error; the choice then lasts until the page is closed.
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const store = (theme) => {
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Nothing to do: the theme is shown, but not kept.
    }
  };

  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const choice = stored();
  if (choice === "light" || choice === "dark") root.dataset.theme = choice;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme-button");
    const show = () => {
      button.textContent = isDark() ? "Light theme" : "Dark theme";
      // Pictures on a canvas have to be drawn again in the colours of the theme.
      document.dispatchEvent(new Event("themechange"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      store(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
})();
