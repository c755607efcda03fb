// Sentences in the language of the page. base_document.html loads the catalogue of a language other than English before the
// modules (portal.web.languages); without it the English sentences stay.

const catalogue = globalThis.django ?? {};

/** The sentence in the page's language. Write it as a literal: the list of messages is made from the source. */
export const gettext = catalogue.gettext ?? ((sentence) => sentence);

/** The form that fits the number; {placeholders} are filled by `format`. */
export const ngettext =
  catalogue.ngettext ?? ((singular, plural, number) => (number === 1 ? singular : plural));

/** "{count} files", { count: 3 } → "3 files". */
export function format(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
}
