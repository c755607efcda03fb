// Files with their paths, from what a person drops or chooses: [{ file, path }], whole directories included.

/** The files of a drop. Call it in the event: afterwards the browser gives nothing. */
export function droppedFiles(transfer) {
  const entries = [...transfer.items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  return collect(entries);
}

/** The files of an <input type="file">, of a directory too. */
export function chosenFiles(input) {
  return [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
}

async function collect(entries) {
  const found = [];
  const waiting = entries.filter(Boolean);
  while (waiting.length) {
    const entry = waiting.pop();
    if (entry instanceof File) found.push({ file: entry, path: entry.name });
    else if (entry.isFile) found.push({ file: await asked((done, fail) => entry.file(done, fail)), path: entry.fullPath.slice(1) });
    else waiting.push(...(await childrenOf(entry)));
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function childrenOf(directory) {
  const reader = directory.createReader();
  const children = [];
  for (;;) {
    const some = await asked((done, fail) => reader.readEntries(done, fail)); // at most a hundred at a time
    if (!some.length) return children;
    children.push(...some);
  }
}

function asked(begin) {
  return new Promise(begin);
}
