// Formulas: LaTeX as MathML, which the browser lays out with its own fonts.

const MAX_FORMULA_LENGTH = 5_000;
// What an answer may have of them.
const MAX_FORMULAS = 500;
const SOURCE = /^\s*(\$\$|\$|\\\(|\\\[)([^]*?)(?:\$\$|\$|\\\)|\\\])\s*$/;

let loaded = null;

/** Show the formula of an element; what is no LaTeX stays as it is. `budget.formulas` counts down. */
export async function showMath(node, budget) {
  const found = node.textContent.match(SOURCE);
  budget.formulas ??= MAX_FORMULAS;
  if (!found || found[2].length > MAX_FORMULA_LENGTH || budget.formulas-- <= 0) return;
  try {
    const { default: temml } = await (loaded ??= import(`${document.documentElement.dataset.root}/ui/temml.min.js`));
    const drawn = document.createElement("span"), displayMode = ["$$", "\\["].includes(found[1]);
    // SEC: without trust there are no links, images, classes or identifiers.
    temml.render(found[2], drawn, { displayMode, throwOnError: true, trust: false, annotate: true, maxSize: [20, 40], maxExpand: 300 });
    node.replaceChildren(...drawn.childNodes);
    node.classList.add("drawn");
  } catch {
    // The source stays.
  }
}
