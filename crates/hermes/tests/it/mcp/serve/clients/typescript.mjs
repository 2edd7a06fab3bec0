// Calls the bridge with the TypeScript SDK and prints what it found as one object.
//
//   typescript.mjs first|legacy|VERSION stdio|URL
//
// `first` is the SDK's first generation; the others are eras of the second.

const KEY = 'agent:main:telegram:dm:1';
const [mode, place] = process.argv.slice(2);
const packages = `${process.env.HERMES_TEST_CLIENTS}/@modelcontextprotocol`;

async function load() {
  if (mode === 'first') {
    const from = (file) => import(`${packages}/sdk/dist/esm/client/${file}.js`);
    return { ...(await from('index')), ...(await from('stdio')), ...(await from('streamableHttp')), options: {} };
  }
  const from = (file) => import(`${packages}/client/dist/${file}.mjs`);
  const negotiation = mode === 'legacy' ? 'legacy' : { pin: mode };
  return { ...(await from('index')), ...(await from('stdio')), options: { versionNegotiation: { mode: negotiation } } };
}

const sdk = await load();
const client = new sdk.Client({ name: 'test', version: '1' }, sdk.options);
let seen;
const transport =
  place === 'stdio'
    ? new sdk.StdioClientTransport({
        command: process.env.BRIDGE,
        args: ['mcp', 'serve'],
        env: { HERMES_HOME: process.env.HERMES_HOME },
      })
    : new sdk.StreamableHTTPClientTransport(new URL(place), {
        requestInit: { headers: { Authorization: 'Bearer t0ken' } },
      });
const noted = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  seen = version;
  noted?.(version);
};
await client.connect(transport);
const tools = await client.listTools();
const called = await client.callTool({ name: 'messages_read', arguments: { session_key: KEY } });
const wrong = await client.callTool({ name: 'messages_read', arguments: { session_key: 5 } });
const resources = await client.listResources();
const prompts = await client.listPrompts();
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion?.() ?? seen,
    tools: tools.tools.map((tool) => tool.name),
    text: called.content[0].text,
    structured: called.structuredContent,
    refused: wrong.isError,
    resources: resources.resources.map((resource) => resource.uri),
    prompts: prompts.prompts.map((prompt) => prompt.name),
  }),
);
await client.close();
