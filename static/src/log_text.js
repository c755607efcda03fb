// The text of a log as a terminal would leave it: colours and cursor moves are dropped, a carriage return
// overwrites its line (progress bars), and only the last lines are kept.

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const UNFINISHED_ESCAPE = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200})?$/;
const BLOCK_LINES = 200;

export class LogText {
  constructor(maxLines) {
    this.maxBlocks = Math.ceil(maxLines / BLOCK_LINES);
    this.blocks = [[]]; // full blocks are drawn once; only the last one changes
    this.current = "";
    this.held = "";
    this.dropped = 0;
  }

  get isEmpty() {
    return this.blocks.length === 1 && this.blocks[0].length === 0 && !this.current;
  }

  add(chunk) {
    let text = this.held + chunk;
    this.held = UNFINISHED_ESCAPE.exec(text)?.[0] ?? (text.endsWith("\r") ? "\r" : "");
    text = text.slice(0, text.length - this.held.length).replace(ESCAPES, "").replaceAll("\r\n", "\n");
    const lines = text.split("\n");
    lines.forEach((line, index) => {
      this.current = overwrite(this.current, line);
      if (index < lines.length - 1) this.endLine();
    });
  }

  endLine() {
    let block = this.blocks.at(-1);
    if (block.length === BLOCK_LINES) {
      block = [];
      this.blocks.push(block);
    }
    block.push(this.current);
    this.current = "";
    while (this.blocks.length > this.maxBlocks) {
      this.blocks.shift();
      this.dropped += 1;
    }
  }

  /** Makes `element` hold one text node for each block. Nodes of full blocks are left alone. */
  drawInto(element) {
    this.nodes ??= (element.replaceChildren(), new Map());
    for (const [block, node] of this.nodes) {
      if (this.blocks.includes(block)) continue;
      node.remove();
      this.nodes.delete(block);
    }
    for (const block of this.blocks) {
      const isLast = block === this.blocks.at(-1);
      const node = this.nodes.get(block) ?? element.appendChild(document.createTextNode(""));
      if (isLast || node.drawnLines !== block.length) {
        node.data = block.map((line) => `${line}\n`).join("") + (isLast ? this.current : "");
        node.drawnLines = isLast ? -1 : block.length;
      }
      this.nodes.set(block, node);
    }
  }
}

function overwrite(before, line) {
  return line.split("\r").reduce((shown, part, index) => (index === 0 ? shown + part : part + shown.slice(part.length)), before);
}
