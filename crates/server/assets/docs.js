// Shows openapi.json. Text only ever enters the page as text nodes, never as markup.
"use strict";

const verbs = ["get", "post", "put", "patch", "delete"];

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}

// The little Markdown that our descriptions use: paragraphs, tables, and code in backticks.
function inline(text) {
  return text.split("`").map((piece, index) => (index % 2 ? make("code", {}, piece) : piece));
}

function prose(text) {
  return (text || "").split("\n\n").filter((block) => block.trim()).map((block) => {
    if (!block.startsWith("|")) return make("p", {}, inline(block));
    const rows = block.trim().split("\n").filter((row) => !/^\|[-| ]+\|$/.test(row));
    const cells = (row) => row.split("|").slice(1, -1).map((cell) => cell.trim());
    return make("table", {}, rows.map((row, index) =>
      make("tr", {}, cells(row).map((cell) => make(index ? "td" : "th", {}, inline(cell))))));
  });
}

const nameOf = (reference) => reference.split("/").pop();

const resolve = (api, schema) => (schema && schema.$ref ? api.components.schemas[nameOf(schema.$ref)] : schema);

function typeOf(api, schema) {
  if (!schema) return "";
  if (schema.$ref) return (resolve(api, schema) || {}).enum ? typeOf(api, resolve(api, schema)) : nameOf(schema.$ref);
  if (schema.oneOf || schema.anyOf) return (schema.oneOf || schema.anyOf).map((one) => typeOf(api, one)).join(" or ");
  if (schema.allOf) return schema.allOf.map((part) => typeOf(api, part)).join(" and ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const types = Array.isArray(schema.type) ? schema.type : [schema.type || "any"];
  return types.map((type) => (type === "array" ? `array of ${typeOf(api, schema.items) || "any"}` : type)).join(" or ")
    + (schema.format ? ` (${schema.format})` : "");
}

// The properties of a schema with those of the schemas it is made of.
function properties(api, schema) {
  if (!schema) return [];
  if (schema.$ref) return properties(api, api.components.schemas[nameOf(schema.$ref)]);
  // What a schema says itself comes before what it takes over from others.
  const parts = schema.allOf && [...schema.allOf].sort((one, other) => Boolean(one.$ref) - Boolean(other.$ref));
  if (parts) return parts.flatMap((part) => properties(api, part));
  if (schema.type === "array") return properties(api, schema.items);
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).map(([name, value]) => ({ name, value, required: required.has(name) }));
}

// A value that is one schema or nothing, such as `oneOf: [null, X]`, is told as X.
const only = (schema) => (schema.oneOf || []).find((one) => one.type !== "null") || schema;

// What there is to say of a property: its description, and the names inside when it is an object of ours.
function told(api, value) {
  const inside = properties(api, only(value)).flatMap(({ name }) => [" ", make("code", {}, name)]);
  return [...inline(value.description || only(value).description || (resolve(api, only(value)) || {}).description || ""),
    inside.length ? make("p", { class: "parts" }, "with", inside) : null];
}

function fields(api, schema) {
  const rows = properties(api, schema);
  if (!rows.length) return null;
  return make("table", {}, rows.map(({ name, value, required }) => make("tr", {},
    make("td", {}, make("code", {}, name), required ? make("span", { class: "required", title: "always there" }, " *") : ""),
    make("td", { class: "type" }, typeOf(api, value)),
    make("td", {}, told(api, value)))));
}

function example(path, verb, operation) {
  const lines = [`curl -X ${verb.toUpperCase()} ${location.origin}${path}`];
  const open = (operation.security || []).some((requirement) => !Object.keys(requirement).length);
  if (!open) lines.push(`  -H "Authorization: Bearer $SKILLBOX_API_KEY"`);
  const content = (operation.requestBody || {}).content || {};
  if (content["application/json"]) lines.push(`  -H "Content-Type: application/json"`, `  -d @body.json`);
  else if (content["application/zip"]) lines.push(`  -H "Content-Type: application/zip"`, `  --data-binary @skill.zip`);
  return make("pre", {}, make("code", {}, lines.join(" \\\n")));
}

function bodyOf(api, operation) {
  const content = Object.entries((operation.requestBody || {}).content || {});
  if (!content.length) return [];
  return [make("h3", {}, "Body"), ...prose(operation.requestBody.description), ...content.map(([type, media]) =>
    make("div", {}, make("code", {}, type), " ", make("span", { class: "type" }, typeOf(api, media.schema)),
      fields(api, media.schema)))];
}

function answersOf(api, operation) {
  return [make("h3", {}, "Answers"), ...Object.entries(operation.responses).sort().map(([status, answer]) => {
    const [type, media] = Object.entries(answer.content || {})[0] || [];
    const table = Number(status) < 400 && media ? fields(api, media.schema) : null;
    const line = [make("code", {}, status), " ", ...inline(answer.description || "")];
    if (media && Number(status) < 400) line.push(" ", make("span", { class: "type" }, `${typeOf(api, media.schema)} · ${type}`));
    return make("div", {}, make("p", {}, line), table);
  })];
}

function parametersOf(api, operation) {
  const parameters = operation.parameters || [];
  if (!parameters.length) return [];
  return [make("h3", {}, "Parameters"), make("table", {}, parameters.map((parameter) => make("tr", {},
    make("td", {}, make("code", {}, parameter.name), parameter.required ? make("span", { class: "required" }, " *") : ""),
    make("td", { class: "type" }, `${parameter.in} · ${typeOf(api, parameter.schema)}`),
    make("td", {}, inline(parameter.description || "")))))];
}

function route(api, path, verb, operation) {
  const anchor = `${verb}${path.replaceAll(/[^a-z0-9]+/gi, "-")}`;
  const label = make("span", { class: `verb ${verb}` }, verb.toUpperCase());
  const details = make("details", { class: "route", id: anchor },
    make("summary", {}, label, make("code", {}, path), make("span", { class: "summary" }, operation.summary || "")),
    make("div", { class: "body" }, ...prose(operation.description), ...parametersOf(api, operation),
      ...bodyOf(api, operation), ...answersOf(api, operation), make("h3", {}, "Try it"), example(path, verb, operation)));
  const link = make("a", { href: `#${anchor}`, title: operation.summary || path }, label.cloneNode(true),
    make("span", { class: "path" }, path.split(/(?<=\/)/).flatMap((part) => [part, make("wbr")])));
  link.addEventListener("click", () => { details.open = true; });
  return { tag: (operation.tags || ["other"])[0], details, link };
}

function show(api) {
  document.getElementById("version").textContent = api.info.version;
  const routes = Object.entries(api.paths).flatMap(([path, item]) =>
    verbs.filter((verb) => item[verb]).map((verb) => route(api, path, verb, item[verb])));
  const nav = document.getElementById("nav");
  const main = document.getElementById("main");
  // The table of errors is for looking things up; it stands after what people come for.
  const [errors, facts] = [prose(api.info.description), []];
  while (errors.length && errors[0].tagName !== "TABLE") facts.push(errors.shift());
  main.replaceChildren(...facts);
  for (const tag of ["executions", "skills", "files", "administration", "health"]) {
    const group = routes.filter((entry) => entry.tag === tag);
    if (!group.length) continue;
    nav.append(make("h2", {}, tag), ...group.map((entry) => entry.link));
    main.append(make("h2", {}, tag), ...group.map((entry) => entry.details));
  }
  nav.append(make("h2", {}, "errors"), make("a", { href: "#errors" }, "All errors"));
  main.append(make("h2", { id: "errors" }, "errors"), ...errors);
  const target = document.getElementById(location.hash.slice(1));
  if (target) {
    target.open = true;
    target.scrollIntoView();
  }
}

fetch("/openapi.json").then((answer) => answer.json()).then(show).catch((error) => {
  document.getElementById("main").replaceChildren(make("p", { class: "hint" }, `The description could not be read: ${error}`));
});
