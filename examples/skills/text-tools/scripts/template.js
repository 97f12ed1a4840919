// Replaces {{KEY}} in standard input by the value given as KEY=VALUE.
'use strict';
const fs = require('node:fs');

const values = new Map();
for (const argument of process.argv.slice(2)) {
  const at = argument.indexOf('=');
  if (at < 1) {
    console.error(`template.js: expected KEY=VALUE, got ${argument}`);
    process.exit(2);
  }
  values.set(argument.slice(0, at), argument.slice(at + 1));
}

const text = fs.readFileSync(0, 'utf8');
const missing = new Set();
const filled = text.replace(/\{\{\s*([\w.-]+)\s*\}\}/g, (whole, key) => {
  if (!values.has(key)) missing.add(key);
  return values.get(key) ?? whole;
});
if (missing.size > 0) {
  console.error(`template.js: no value for ${[...missing].join(', ')}`);
  process.exit(1);
}
process.stdout.write(filled);
