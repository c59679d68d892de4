// The first paint needs no script. A tab in the background has no frames.
const load = () => import(`${document.documentElement.dataset.root}/ui/page.js`);
if (document.hidden) load();
else requestAnimationFrame(() => setTimeout(load));
