// Calls tools of a Hub with the TypeScript SDK and prints what came back as one object.
//
//   typescript.mjs first|legacy|VERSION URL TOKEN CALLS
//
// `first` is the SDK's first generation; the others are eras of the second. CALLS is a JSON list of tools and their
// arguments.

const [mode, place, token, calls] = process.argv.slice(2);
const packages = `${process.env.HERMES_TEST_CLIENTS}/@modelcontextprotocol`;

async function load() {
  if (mode === 'first') {
    const from = (file) => import(`${packages}/sdk/dist/esm/client/${file}.js`);
    return { ...(await from('index')), ...(await from('streamableHttp')), options: {} };
  }
  const negotiation = mode === 'legacy' ? 'legacy' : { pin: mode };
  return {
    ...(await import(`${packages}/client/dist/index.mjs`)),
    options: { versionNegotiation: { mode: negotiation } },
  };
}

const sdk = await load();
const client = new sdk.Client({ name: 'test', version: '1' }, sdk.options);
const transport = new sdk.StreamableHTTPClientTransport(new URL(place), {
  requestInit: { headers: { Authorization: `Bearer ${token}` } },
});
let seen;
const noted = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  seen = version;
  noted?.(version);
};
await client.connect(transport);
const tools = await client.listTools();
const answers = [];
for (const [name, args] of JSON.parse(calls)) {
  const called = await client.callTool({ name, arguments: args });
  answers.push({
    texts: called.content.map((item) => item.text),
    structured: called.structuredContent,
    isError: called.isError ?? false,
  });
}
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion?.() ?? seen,
    tools: tools.tools.map((tool) => tool.name),
    answers,
  }),
);
await client.close();
