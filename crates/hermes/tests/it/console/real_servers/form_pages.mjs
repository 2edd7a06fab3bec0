// Pages that no link leads to, only a form or a refusal, judged like all others. Prints what is wrong with them as JSON.
//
//   form_pages.mjs '{"base": "http://…", "token": "…"}'

import { openContext, signInDirectly, startBrowser } from './browser.mjs';
import { findScroll, findTurned, judgeSource, openDetails, runAxe } from './judge.mjs';

const { base, token } = JSON.parse(process.argv[2]);

const CORNERS = [
  { name: 'form-wide', width: 1280, height: 900, dark: false },
  { name: 'form-phone', width: 320, height: 640, dark: true },
];

const findings = [];
const pages = [];
const browser = await startBrowser();
const { context, faults } = await openContext(browser, base);

const turnTo = async (page, corner) => {
  await page.setViewportSize({ width: corner.width, height: corner.height });
  await page.emulateMedia({ colorScheme: corner.dark ? 'dark' : 'light' });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
};

// Does something that leads to another page, and judges that one. `proof` is on it and on no other.
const judge = async (page, name, status, proof, act) => {
  const add = (finding) => findings.push({ page: name, ...finding });
  const [answer] = await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), act()]);
  await page.locator(proof).first().waitFor({ state: 'attached' });
  if (answer.status() !== status) add({ rule: 'status', detail: `${answer.status()}` });
  judgeSource(await answer.text()).forEach(add);
  for (const [number, corner] of CORNERS.entries()) {
    await turnTo(page, corner);
    await openDetails(page);
    const scroll = await findScroll(page);
    if (scroll) add({ rule: 'horizontal-scroll', detail: `${corner.name}: ${scroll}` });
    (await runAxe(page, corner.name, number === 0)).forEach(add);
  }
  for (const detail of await findTurned(page)) add({ rule: 'turned', detail });
  await turnTo(page, CORNERS[0]);
  // A refusal is an error to the browser; nothing else may be.
  for (const fault of faults.splice(0)) if (!/status of 4\d\d/.test(fault.detail)) add(fault);
  pages.push(name);
};

const api = async (method, path, body) => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path} answers ${answer.status}: ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
};

const page = await context.newPage();

await page.goto(`${base}/sign-in`);
await page.fill('#token', 'wrong');
await judge(page, 'a sign-in that is refused', 401, '.problem[role=alert]', () => page.click('#sign-in button.main'));

await signInDirectly(context, base, token);
await judge(page, 'an address without a page', 404, 'p.problem', () => page.goto(`${base}/nothing/here`));

await page.goto(`${base}/tenants`);
await openDetails(page);
const create = page.locator('form[action="/do/create_tenant"]');
await create.evaluate((form) => (form.noValidate = true));
await create.locator('#new-id').fill('NOT <b>VALID</b>');
await judge(page, 'a form that is refused', 400, 'main > p.problem', () => create.locator('button').last().click());

await page.goto(`${base}/tenants/acme/mcp/everything?tool=echo`);
await page.locator('#tool-form [name="arg.message"]').fill('hello <b>there</b>');
await judge(page, 'the result of a tool', 200, '#result-text', () => page.click('#tool-form button.main'));

await page.goto(`${base}/tenants/acme/mcp/everything`);
await judge(page, 'the test of a server', 200, '#tested', () => page.click('button[name=action][value=test]'));

await page.goto(`${base}/tenants/acme/character`);
const soul = page.locator('form[action="/do/put_soul"]');
await soul.locator('textarea').fill('I am what this page says.');
await api('PUT', '/v1/tenants/acme/soul', { content: 'I am what somebody else says.\u202e' });
const kept = 'form[action="/do/put_soul"] input[type=hidden][name=content]';
await judge(page, 'a document that somebody else has changed', 412, kept, () => soul.locator('button.main').click());

await page.goto(`${base}/policy`);
await page.fill('#document', '{"tools": {"deny": ["write_file"]}}');
await judge(page, 'the preview of a policy', 200, 'main a.button[href^="/policy"]', () => page.locator('form:has(#document) button.main').click());

await page.goto(`${base}/tokens`);
const mint = page.locator('form[action="/do/create_token"]');
await mint.locator('#name').fill('a <b>program</b>');
await judge(page, 'a secret that is shown once', 200, 'dl.facts code', () => mint.locator('button.main').click());

await page.goto(`${base}/audit`);
await judge(page, 'the audit log, verified', 200, '#checked', () => page.click('form[action="/audit/verify"] button'));

// A session ends under a form. The page itself does not hear of it.
await page.close();
const last = await context.newPage();
await last.route(/\/live/, () => {});
await last.goto(`${base}/tokens`);
await last.locator('form[action="/do/create_token"] #name').fill('later');
const { sessions } = await api('GET', '/v1/console-sessions');
for (const { sessionId } of sessions) await api('DELETE', `/v1/console-sessions/${sessionId}`);
const isKept = '#sign-in input[name=form_fields]';
await judge(last, 'a sign-in for a form that was sent', 401, isKept, () => last.click('form[action="/do/create_token"] button.main'));
await last.fill('#token', token);
await judge(last, 'a form that was interrupted', 200, 'main.alone form button.main', () => last.click('#sign-in button.main'));

console.log(JSON.stringify({ findings, pages }));
await browser.close();
process.exit(0);
