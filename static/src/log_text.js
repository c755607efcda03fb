// The text of a log as a terminal would leave it: colours and cursor moves are dropped, a carriage return
// overwrites its line (progress bars), and only the last lines are kept, unless somebody reads what would go.

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const ERASE_LINE = /\r\x1b\[2?K/g;
const UNFINISHED_ESCAPE = /\r?\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200})?$/;
const BLOCK_LINES = 200;

export class LogText {
  constructor(maxLines) {
    this.maxBlocks = Math.ceil(maxLines / BLOCK_LINES);
    this.blocks = [[]]; // full blocks are drawn once; only the last one changes
    this.current = "";
    this.held = "";
    this.dropped = 0; // blocks
    this.isHeld = false; // nothing is dropped meanwhile
    this.wanted = null; // a line that is not dropped
  }

  /** Lines are counted from 1, by all that the stream has had. */
  get firstLine() {
    return this.dropped * BLOCK_LINES + 1;
  }

  get lastLine() {
    return this.firstLine + (this.blocks.length - 1) * BLOCK_LINES + this.blocks.at(-1).length - (this.current ? 0 : 1);
  }

  /** Twice as much as is kept otherwise: no more should be read before something may go. */
  get isFull() {
    return this.blocks.length >= 2 * this.maxBlocks;
  }

  hold(isHeld) {
    this.isHeld = isHeld;
    this.dropOld();
  }

  get isEmpty() {
    return this.blocks.length === 1 && this.blocks[0].length === 0 && !this.current;
  }

  add(chunk) {
    let text = this.held + chunk;
    this.held = UNFINISHED_ESCAPE.exec(text)?.[0] ?? (text.endsWith("\r") ? "\r" : "");
    text = text.slice(0, text.length - this.held.length).replace(ERASE_LINE, "\r\0").replace(ESCAPES, "").replaceAll("\r\n", "\n");
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
    this.dropOld();
  }

  dropOld() {
    const isWanted = () => this.wanted && this.wanted < this.firstLine + BLOCK_LINES;
    while (!this.isHeld && this.blocks.length > this.maxBlocks && !isWanted()) {
      this.blocks.shift();
      this.dropped += 1;
    }
  }

  /** Makes `lines` hold one text node for each block, and `numbers` one with their numbers. Nodes of full blocks are left
   * alone. */
  drawInto(lines, numbers) {
    this.nodes ??= (lines.replaceChildren(), numbers.replaceChildren(), new Map());
    const kept = new Set(this.blocks);
    for (const [block, { text, count }] of this.nodes) {
      if (kept.has(block)) continue;
      text.remove();
      count.remove();
      this.nodes.delete(block);
    }
    this.blocks.forEach((block, index) => {
      const isLast = index === this.blocks.length - 1;
      const node = this.nodes.get(block) ?? { text: lines.appendChild(new Text()), count: numbers.appendChild(new Text()) };
      if (isLast || node.drawn !== block.length) {
        node.text.data = block.map((line) => `${line}\n`).join("") + (isLast ? this.current : "");
        node.count.data = this.numbersOf(index, block.length + (isLast && this.current ? 1 : 0));
        node.drawn = isLast ? -1 : block.length;
      }
      this.nodes.set(block, node);
    });
  }

  numbersOf(index, count) {
    const first = this.firstLine + index * BLOCK_LINES;
    return Array.from({ length: count }, (_, line) => `${first + line}\n`).join("");
  }

  /** The range of a drawn line, or null where it is not kept or not there yet. */
  rangeOf(line) {
    const index = Math.floor((line - this.firstLine) / BLOCK_LINES);
    const node = this.nodes?.get(this.blocks[index])?.text;
    if (line < this.firstLine || line > this.lastLine || !node) return null;
    const before = this.blocks[index].slice(0, (line - this.firstLine) % BLOCK_LINES);
    const start = before.reduce((sum, text) => sum + text.length + 1, 0);
    const end = node.data.indexOf("\n", start);
    return rangeIn(node, start, end === -1 ? node.data.length : end);
  }

  /** Every place of `words` in what is kept, whatever the case: [{node, start, line}], at most `most`. */
  find(words, most) {
    const wanted = words.toLowerCase();
    const found = [];
    this.blocks.forEach((block, index) => {
      const node = this.nodes?.get(block)?.text;
      const text = node?.data.toLowerCase() ?? "";
      let [line, counted] = [this.firstLine + index * BLOCK_LINES, 0];
      for (let start = text.indexOf(wanted); start !== -1 && found.length < most; start = text.indexOf(wanted, start + wanted.length)) {
        for (; counted < start; counted += 1) if (text[counted] === "\n") line += 1;
        found.push({ node, start, line });
      }
    });
    return found;
  }
}

export function rangeIn(node, start, end) {
  const range = new Range();
  range.setStart(node, Math.min(start, node.data.length));
  range.setEnd(node, Math.min(end, node.data.length));
  return range;
}

/** The line as a terminal would leave it: after a carriage return what comes replaces what was there; \0 erases all of it. */
function overwrite(before, line) {
  return line.split("\r").reduce((shown, part, index) => {
    if (index === 0) return shown + part;
    return part.startsWith("\0") ? part.slice(1) : part + shown.slice(part.length);
  }, before);
}
