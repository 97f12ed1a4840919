/** The official TypeScript client of the second generation, which speaks the protocol without sessions where it can. */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import * as z from "zod/v4";

import { serve } from "./remote.mjs";

const fresh = (options) => ({ ...options, cacheMode: "refresh" });

async function connect({ url, headers, ...command }) {
  const transport = url ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) : new StdioClientTransport(command);
  const client = new Client({ name: "conformance", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(transport);
  const skills = new SkillsClient(client);
  return {
    about: () => ({
      protocol: client.getNegotiatedProtocolVersion(),
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    }),
    close: () => client.close(),
    list_tools: (_, options) => client.listTools({}, fresh(options)),
    call_tool: (call, options) => client.callTool(call, options),
    list_resources: (_, options) => client.listResources({}, fresh(options)),
    list_resource_templates: (_, options) => client.listResourceTemplates({}, fresh(options)),
    read_resource: (resource, options) => client.readResource(resource, fresh(options)),
    request: (request, options) => client.request(request, z.looseObject({}), options),
    // The extension's own client checks every file against its entry.
    verify_skills: async () => {
      const { skills: entries } = await skills.list();
      const verified = {};
      for (const entry of entries) {
        for (const { uri } of entry.resources) verified[uri] = (await skills.read(entry, uri)).verified;
      }
      return verified;
    },
  };
}

serve(connect);
