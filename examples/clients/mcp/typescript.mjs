// Runs the skills of a directory on this machine, over MCP. Needs: npm install @modelcontextprotocol/client, and skillbox.
// Usage: node typescript.mjs path/to/skills

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const client = new Client({ name: "example", version: "1.0.0" });
// One tool for each skill, beside the tools for all of them.
await client.connect(new StdioClientTransport({ command: "skillbox", args: ["mcp", process.argv[2] ?? "skills", "--skill-tools"], stderr: "ignore" }));

const { tools } = await client.listTools();
console.log("tools:", tools.map((tool) => tool.name).join(", "));
const result = await client.callTool({ name: "skillbox_word-counter", arguments: { text: "one two two" } });
console.log(result.isError ? "failed:" : "output:", result.structuredContent.output);
await client.close();
