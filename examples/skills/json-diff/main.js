// Compares two JSON documents and writes the difference as a JSON Patch.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const SAMPLE = {
  before: { name: 'api', replicas: 2, ports: [80], debug: true },
  after: { name: 'api', replicas: 3, ports: [80, 443], owner: 'team-a' },
};

// The variable is left out for large documents; the file is always there.
const text = process.env.SANDBOX_INPUT ?? fs.readFileSync('/sandbox/input.json', 'utf8');
let request = JSON.parse(text) ?? {};
if (request.before === undefined && request.after === undefined) request = SAMPLE;

const isContainer = (value) => value !== null && typeof value === 'object';
const escapeKey = (key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1');

function compare(before, after, pointer, patch) {
  const sameKind = isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after);
  if (!sameKind) {
    if (before !== after) patch.push({ op: 'replace', path: pointer, value: after, was: before });
    return;
  }
  // Entries are removed from the end of an array, because each removal moves the ones behind it.
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  if (Array.isArray(before)) removed.reverse();
  for (const key of Object.keys(before).filter((key) => Object.hasOwn(after, key))) {
    compare(before[key], after[key], `${pointer}/${escapeKey(key)}`, patch);
  }
  for (const key of removed) patch.push({ op: 'remove', path: `${pointer}/${escapeKey(key)}`, was: before[key] });
  for (const key of Object.keys(after).filter((key) => !Object.hasOwn(before, key))) {
    patch.push({ op: 'add', path: `${pointer}/${escapeKey(key)}`, value: after[key] });
  }
}

function describe({ op, path: where, value, was }) {
  const place = where === '' ? '(whole document)' : where;
  if (op === 'add') return `+ ${place}: ${JSON.stringify(value)}`;
  if (op === 'remove') return `- ${place}: ${JSON.stringify(was)}`;
  return `~ ${place}: ${JSON.stringify(was)} -> ${JSON.stringify(value)}`;
}

const changes = [];
compare(request.before ?? null, request.after ?? null, '', changes);
const counts = { add: 0, remove: 0, replace: 0 };
for (const change of changes) counts[change.op] += 1;

const lines = changes.map(describe);
fs.writeFileSync(path.join(process.env.SANDBOX_FILES_DIR, 'changes.txt'), lines.map((line) => `${line}\n`).join(''));
const patch = changes.map(({ was, ...operation }) => operation);
fs.writeFileSync(process.env.SANDBOX_OUTPUT, JSON.stringify({ equal: patch.length === 0, counts, patch }));
console.log(`${patch.length} changes`);
