// The pictures of the guide to the console: console-screenshots.mjs PROGRAMS IMAGES

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);
const [programs, images] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), 'console-'));
const data = join(directory, 'hub');
const children = [];

// Starts a program and waits for a line of its output.
const start = (program, args, isReady) =>
  new Promise((ready, fail) => {
    const environment = { ...process.env, HOME: directory, HERMES_HOME: join(directory, 'home') };
    const child = spawn(join(programs, program), args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    children.push(child);
    child.on('exit', (code) => fail(new Error(`${program} ended with ${code}`)));
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => isReady(line) && ready(line));
    }
  });

const usage = { prompt: 1840, completion: 46 };
const script = {
  rules: [
    {
      contains: 'old drafts',
      answer: { reply: { usage, calls: [{ id: 'call_1', name: 'terminal', arguments: ['{"command": "rm -r drafts"}'] }] } },
    },
    {
      contains: 'invoices',
      times: 1,
      answer: { reply: { usage, calls: [{ id: 'call_2', name: 'terminal', arguments: ['{"command": "ls invoices"}'] }] } },
    },
    {
      contains: 'march.md',
      answer: { reply: { usage, text: ['Three invoices of March are open: 1042, 1047 and 1051. Together they are 4,310 €.'] } },
    },
  ],
};

try {
  const model = await start('testkit-model', [JSON.stringify(script)], (line) => line.startsWith('http'));
  const serve = ['hub', 'serve', '--data-dir', data, '--listen', '127.0.0.1:0', '--set', 'metrics.listen=off'];
  const line = await start('hermes', serve, (text) => text.includes('listens on http://'));
  const base = line.match(/http:\/\/\S+/)[0];
  const token = readFileSync(join(data, 'admin.token'), 'utf8').trim();
  const send = async (method, path, body) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  const waitFor = async (path, isSo) => {
    for (const begun = Date.now(); Date.now() - begun < 60_000; await new Promise((next) => setTimeout(next, 100))) {
      if (isSo(await send('GET', path))) return;
    }
    throw new Error(`${path} does not change`);
  };

  await send('POST', '/v1/groups', { id: 'sales', displayName: 'Sales' });
  const names = { acme: 'Acme Ltd', globex: 'Globex', initech: 'Initech' };
  for (const [id, displayName] of Object.entries(names)) {
    await send('POST', '/v1/tenants', { id, displayName, start: false, groups: [{ id: 'sales', access: 'write' }] });
    await waitFor(`/v1/tenants/${id}`, (tenant) => tenant.status === 'ready');
    const home = join(data, 'tenants', id, 'home');
    const config = `model: {default: scripted, provider: custom, base_url: '${model}'}\napprovals: {mode: manual}\n`;
    writeFileSync(join(home, 'config.yaml'), config);
    for (const folder of ['drafts', 'invoices']) mkdirSync(join(home, 'workspace', folder), { recursive: true });
    for (const month of ['february', 'march']) writeFileSync(join(home, 'workspace/invoices', `${month}.md`), '');
  }
  for (const month of ['january', 'february', 'march']) {
    const file = { path: `invoices/${month}.md`, content: `# Invoices of ${month}\n` };
    await send('PUT', '/v1/tenants/acme/shares/sales/files/content', file);
  }
  await send('PUT', '/v1/tenants/acme/mcp-servers/demo', { command: join(programs, 'hermes'), args: ['mcp', 'demo'] });
  const job = { id: 'week', name: 'Plan the week', schedule: '0 9 * * 1', prompt: 'Plan the week' };
  await send('POST', '/v1/tenants/acme/agent-cron', job);
  const run = async (tenant, input, status) => {
    const { runId } = await send('POST', `/v1/tenants/${tenant}/runs`, { input });
    await waitFor(`/v1/tenants/${tenant}/runs/${runId}`, (run) => run.status === status);
    return runId;
  };
  for (const tenant of ['globex', 'initech', 'acme']) await run(tenant, 'Good morning!', 'completed');
  const shown = await run('acme', 'Which invoices are open?', 'completed');
  await run('acme', 'Remove the old drafts', 'waiting_for_approval');

  const browser = await playwright.chromium.launch({
    executablePath: process.env.HERMES_TEST_BROWSER,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
  });
  const take = async (name, path, options = {}) => {
    const { width = 1280, height = 800, dark = false } = options;
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', locale: 'en' });
    const page = await context.newPage();
    const headers = { origin: base, 'sec-fetch-site': 'same-origin' };
    await context.request.post(`${base}/sign-in`, { form: { token }, headers, maxRedirects: 0 });
    const answer = await page.goto(base + path);
    if (answer.status() !== 200) throw new Error(`${path}: ${answer.status()}`);
    await page.waitForLoadState('load');
    await page.screenshot({ path: join(images, `${name}.png`) });
    await context.close();
  };
  await take('console-overview', '/');
  await take('console-run', `/tenants/acme/runs/${shown}`);
  await take('console-approvals', '/approvals', { width: 360, height: 640, dark: true });
  await take('console-server', '/tenants/acme/mcp/demo?tool=add', { height: 1000 });
  await browser.close();
} finally {
  for (const child of children) {
    child.removeAllListeners('exit');
    const ended = new Promise((end) => child.on('exit', end));
    child.kill('SIGTERM');
    await ended;
  }
  rmSync(directory, { recursive: true, force: true });
}
process.exit(0);
