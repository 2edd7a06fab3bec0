// The rules of html-validate: those that it recommends, with these differences.

export const rules = {
  // HTML is case-insensitive here; all of ours is lower case.
  'doctype-style': ['error', { style: 'lowercase' }],
  // `<input>` and not `<input/>`, which is the default; whitespace is of no matter to a reader.
  'no-trailing-whitespace': 'off',
  // A button in a form submits it. That is what ours are for.
  'no-implicit-button-type': 'off',
  // An input without a type is one for text.
  'no-implicit-input-type': 'off',
  // Boxes of one list share a name, and a hidden field before a box says what it means when it is not ticked.
  'form-dup-name': 'off',
  // A title contains the name of a tenant, which may be long.
  'long-title': 'off',
  // Our files come from our own address.
  'require-sri': 'off',
};
