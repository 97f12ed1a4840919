/** The official TypeScript client of the first generation, which speaks the protocols with sessions. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResultSchema } from "@modelcontextprotocol/sdk/types.js";

import { serve } from "./remote.mjs";

async function connect({ url, headers, ...command }) {
  const transport = url ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) : new StdioClientTransport(command);
  // What the server says of itself is kept by the client, but for the version.
  let protocol;
  transport.setProtocolVersion = ((set) => (version) => { protocol = version; set?.call(transport, version); })(transport.setProtocolVersion);
  const client = new Client({ name: "conformance", version: "1" });
  await client.connect(transport);
  return {
    about: () => ({
      protocol,
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    }),
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
    },
    list_tools: (_, options) => client.listTools({}, options),
    call_tool: (call, options) => client.callTool(call, undefined, options),
    list_resources: (_, options) => client.listResources({}, options),
    list_resource_templates: (_, options) => client.listResourceTemplates({}, options),
    read_resource: (resource, options) => client.readResource(resource, options),
    request: (request, options) => client.request(request, ResultSchema, options),
  };
}

serve(connect);
