// Runs before the first paint: the theme that this browser chose, and whether the sidebar is folded.
try {
  const { theme, sidebar } = localStorage;
  if (theme) document.documentElement.dataset.theme = theme;
  if (sidebar) document.documentElement.dataset.sidebar = sidebar;
} catch { /* Blocked storage: the system's theme. */ }
// The first paint needs no script. A tab in the background has no frames.
const load = () => import(`${document.documentElement.dataset.root}/ui/page.js`);
if (document.hidden) load();
else requestAnimationFrame(() => setTimeout(load));
