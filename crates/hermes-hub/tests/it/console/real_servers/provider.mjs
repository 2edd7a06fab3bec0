// `oidc-provider` of npm, with one client and one person, who is signed in without being asked.
//
//   provider.mjs HUB_ADDRESS
//
// Prints one line with its address and runs until stdin ends.

import { createServer } from 'node:http';
import { once } from 'node:events';

// Nobody reads stdout after the first line.
console.info = console.error;
console.warn = console.error;

const hub = process.argv[2];
const { default: Provider } = await import(`${process.env.HERMES_TEST_OAUTH}/oidc-provider/lib/index.js`);

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  cookies: { keys: ['a key for cookies'] },
  claims: { openid: ['sub'], profile: ['name'], groups: ['groups'] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: 'Ada Lovelace', groups: ['engineers', 'support'] }),
  }),
  async loadExistingGrant({ oidc }) {
    const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope('openid profile groups');
    await grant.save();
    return grant;
  },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
  clients: [
    {
      client_id: 'hermes',
      client_secret: 'a secret: of/the hub+',
      redirect_uris: [`${hub}/sign-in/callback`],
      post_logout_redirect_uris: [`${hub}/sign-in`],
    },
  ],
});
const answer = provider.callback();
server.on('request', (request, response) => {
  if (request.url.startsWith('/interaction/')) {
    provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
  } else {
    answer(request, response);
  }
});

console.log(JSON.stringify({ issuer }));

process.stdin.resume();
process.stdin.on('end', () => process.exit());
