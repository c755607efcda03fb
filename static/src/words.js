// Sentences in the language of the page. base_document.html loads those of a language other than English before the modules
// (manage.py build_languages makes them); without them the English sentences stay.

const known = globalThis.berthWords ?? {};

/** The sentence in the page's language. Write it as a literal: the list of messages is made from the source. */
export function gettext(sentence) {
  return known[sentence]?.[0] ?? sentence;
}

/** The form that fits the number; {placeholders} are filled by `format`. Languages have one form, or two like English. */
export function ngettext(singular, plural, number) {
  const forms = known[singular] ?? [singular, plural];
  return forms[Math.min(number === 1 ? 0 : 1, forms.length - 1)];
}

/** "{count} files", { count: 3 } → "3 files". */
export function format(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
}
