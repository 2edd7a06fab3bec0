// An authorization server that others wrote, before an MCP server that others wrote: `oidc-provider` issues tokens,
// the TypeScript SDK's own middleware asks for them, `server-everything` is what they open.
//
//   place.mjs SECONDS
//
// Access tokens last so many seconds. Prints one line with the addresses and runs until stdin ends.

import { spawn } from 'node:child_process';
import { createServer, request } from 'node:http';
import { once } from 'node:events';

// Nobody reads stdout after the first line, and what is written there then ends this.
console.info = console.error;

const packages = process.env.HERMES_TEST_OAUTH;
const everything = `${process.env.HERMES_TEST_NPM}/mcp-server-everything`;
const lifetime = Number(process.argv[2]);
const SCOPE = 'tools';

const load = (path) => import(`${packages}/${path}`);
const { default: Provider, errors } = await load('oidc-provider/lib/index.js');
const { createRemoteJWKSet, jwtVerify } = await load('jose/dist/webapi/index.js');
const { default: express } = await load('express/index.js');
const auth = '@modelcontextprotocol/sdk/dist/esm/server/auth';
const { requireBearerAuth } = await load(`${auth}/middleware/bearerAuth.js`);
const { mcpAuthMetadataRouter, getOAuthProtectedResourceMetadataUrl } = await load(`${auth}/router.js`);
const { InvalidTokenError } = await load(`${auth}/errors.js`);

async function listen(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

// The ports come first: both sides name themselves by them.
const authorization = createServer();
const issuer = `http://127.0.0.1:${await listen(authorization)}`;
const front = createServer();
const mcp = new URL(`http://127.0.0.1:${await listen(front)}/mcp`);

const provider = new Provider(issuer, {
  cookies: { keys: ['a key for cookies'] },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(_context, resource) {
        if (resource !== mcp.href) throw new errors.InvalidTarget();
        const format = { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } };
        return { scope: SCOPE, audience: mcp.href, accessTokenTTL: lifetime, ...format };
      },
    },
  },
  clients: [
    {
      client_id: 'robot',
      client_secret: 'a secret of the robot',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ],
});
authorization.on('request', provider.callback());

const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
const verifier = {
  async verifyAccessToken(token) {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience: mcp.href });
      const { client_id: clientId, scope = '', exp: expiresAt } = payload;
      return { token, clientId, scopes: scope.split(' '), expiresAt, resource: mcp };
    } catch (error) {
      throw new InvalidTokenError(error.message);
    }
  },
};

const free = createServer();
const port = await listen(free);
free.close();
await once(free, 'close');
const environment = { ...process.env, PORT: String(port) };
const server = spawn(process.execPath, [everything, 'streamableHttp'], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] });
process.on('exit', () => server.kill());
// Read to the end: it would not survive a closed pipe either.
await new Promise((resolve) => server.stderr.on('data', (text) => String(text).includes('listening') && resolve()));

const app = express();
const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: mcp, scopesSupported: [SCOPE] }));
const options = { verifier, requiredScopes: [SCOPE], expectedResource: mcp };
const guard = requireBearerAuth({ ...options, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(mcp) });
app.all('/mcp', guard, (incoming, outgoing) => {
  const { method, headers } = incoming;
  const onward = request({ port, path: '/mcp', method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
});
front.on('request', app);

console.log(JSON.stringify({ issuer, mcp: mcp.href }));

process.stdin.resume();
process.stdin.on('end', () => process.exit());
