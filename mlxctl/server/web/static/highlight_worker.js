// Runs after the vendored highlight.js in a worker: the text of code as runs [text, class or null].

/** Collects what highlight.js finds; the innermost scope of a text is its class. */
class RunEmitter {
  runs = [];
  #scopes = [];
  addText(text) {
    if (text) this.runs.push([text, this.#scopes.at(-1) ?? null]);
  }
  startScope(name) {
    this.#scopes.push(`hl-${name.split(".")[0]}`);
  }
  endScope() {
    this.#scopes.pop();
  }
  // Its other names of the two.
  openNode(name) {
    this.startScope(name);
  }
  closeNode() {
    this.endScope();
  }
  __addSublanguage({ runs }) {
    this.runs.push(...runs);
  }
  finalize() {}
  toHTML() {
    return "";
  }
}

hljs.configure({ __emitter: RunEmitter });
onmessage = ({ data: { code, language } }) => {
  const isKnown = language && hljs.getLanguage(language);
  postMessage(isKnown ? hljs.highlight(code, { language, ignoreIllegals: true })._emitter.runs : null);
};
