// What people do at the console, one scene after the other:
//
//   scenes.mjs '{"scenes": ["watchRun"], "base": "http://…", "token": "…", …}'
//
// A scene says where it stands by a line of JSON and goes on when it gets one. Its last line is its result.

import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { openContext, signIn, startBrowser } from './browser.mjs';
import { findScroll, runAxe } from './judge.mjs';

const given = JSON.parse(process.argv[2]);
const { base, token } = given;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const say = (value) => console.log(JSON.stringify(value));
// Says where the scene stands and waits for the test to go on.
const pause = async (step, more = {}) => {
  say({ step, ...more });
  const { value, done } = await lines.next();
  if (done) process.exit(1);
  return JSON.parse(value);
};

const browser = await startBrowser();

const enter = async (options = {}) => {
  const { context, faults } = await openContext(browser, base, options);
  const page = await context.newPage();
  await signIn(page, base, token);
  // Counts the documents that are loaded from here on: a page that keeps itself current loads none.
  let loads = 0;
  page.on('domcontentloaded', () => (loads += 1));
  return { page, faults, loads: () => loads };
};

const visible = (page, selector, options = {}) => page.locator(selector, options).first().waitFor({ state: 'visible' });
const gone = (page, selector) => page.locator(selector).first().waitFor({ state: 'hidden' });
// Waits until a screen reader is told this.
const announced = (page, words) => page.locator('#announce', { hasText: words }).waitFor({ state: 'attached' });

const startRun = async (page, input) => {
  await page.goto(`${base}/tenants/acme/runs`);
  const form = page.locator('form[action="/do/create_run"]').first();
  if (!(await form.isVisible())) await page.locator('details:has(form[action="/do/create_run"]) > summary').first().click();
  await form.locator('textarea').fill(input);
  return form.locator('button').first();
};

const scenes = {
  // A run is begun by the form and watched to its end, without loading a page again.
  async watchRun() {
    const { page, faults, loads } = await enter();
    const start = await startRun(page, 'say it slowly');
    await start.click();
    if (!/\/runs\/[^/?]+/.test(page.url())) {
      const link = page.locator('main a[href*="/acme/runs/run_"]').first();
      await link.waitFor();
      await page.goto(base + (await link.getAttribute('href')));
    }
    const before = loads();
    const steps = page.locator('#steps');
    await steps.getByText('word3').first().waitFor();
    const early = await steps.innerText();
    await visible(page, '.state.completed');
    await page.getByText('word39').first().waitFor();
    await announced(page, 'The run has ended.');
    return { faults, reloads: loads() - before, sawItGrow: !early.includes('word39') };
  },

  // The stream of a run breaks off and is refused then, as by a proxy: it is opened again behind the last event that came.
  async refusedStream() {
    const { page, faults } = await enter();
    const asked = [];
    await page.route(/\/events\?after=/, async (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get('after'));
      asked.push(after);
      const event = { event: 'message.delta', delta: 'early ', time: new Date().toISOString() };
      const body = `retry: 100\nid: ${after + 1}\ndata: ${JSON.stringify(event)}\n\n`;
      if (asked.length === 1) await route.fulfill({ contentType: 'text/event-stream', body });
      else if (asked.length === 2) await route.fulfill({ status: 502 });
      else await route.continue();
    });
    const start = await startRun(page, 'say it slowly');
    await start.click();
    await page.locator('#steps').getByText('early').first().waitFor();
    await visible(page, '#connection');
    await announced(page, 'The run has ended.');
    await visible(page, '.state.completed');
    await gone(page, '#connection');
    // What was refused is an error to the browser; nothing else may be.
    const others = faults.filter((fault) => !/Failed to load|EventSource/.test(fault.detail));
    return { faults: others, asked };
  },

  // Enter sends what was written, and the answer grows below it.
  async chat() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/chat`);
    await page.locator('#words').fill('say it slowly');
    await page.locator('#words').press('Enter');
    const talk = page.locator('#talk');
    await talk.locator('.agent').getByText('word3').first().waitFor();
    const early = await talk.innerText();
    await talk.getByText('word39').first().waitFor();
    await gone(page, '#working');
    const said = await talk.locator('.agent').count();
    return { faults, said, sawItGrow: !early.includes('word39') };
  },

  // What the agent asks is decided in the chat, and it goes on there.
  async chatAsks() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/chat`);
    await page.locator('#words').fill('clear up');
    await page.locator('#words').press('Enter');
    const ask = page.locator('.ask').first();
    await ask.getByText('rm -r old').waitFor();
    const isInChat = new URL(page.url()).pathname === '/tenants/acme/chat';
    const tool = await page.locator('#talk .step code').first().innerText();
    await ask.locator('button[value=once]').click();
    await page.locator('.ask').first().waitFor({ state: 'detached' });
    await page.locator('#talk .agent').first().waitFor();
    await gone(page, '#working');
    return { faults, isInChat, tool };
  },

  // A form that a real server asks for is filled in where the agent asks, and it goes on there.
  async chatForm() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/chat`);
    await page.locator('#words').fill('fill it in');
    await page.locator('#words').press('Enter');
    const form = page.locator('.ask form[id^="answer-"]').first();
    await form.waitFor();
    const asked = await page.locator('.ask').first().innerText();
    const isInChat = new URL(page.url()).pathname === '/tenants/acme/chat';
    const findings = await runAxe(page, 'form', true);
    await page.setViewportSize({ width: 320, height: 640 });
    const scroll = await findScroll(page);
    const field = (name) => form.locator(`[name="arg.${name}"]`);
    const types = {};
    for (const name of ['name', 'email', 'birthdate', 'integer']) types[name] = await field(name).evaluate((control) => control.type);
    // What is required is asked for by the browser; nothing is sent without it.
    await form.locator('button.main').click();
    const isHeld = await field('name').evaluate((input) => input.validity.valueMissing && input === document.activeElement);
    await field('name').fill('Ada <b>Lovelace</b>');
    await field('check').selectOption('true');
    await field('email').fill('ada@example.org');
    await field('birthdate').fill('1815-12-10');
    await field('integer').fill('7');
    await field('titledSingleSelectEnum').selectOption({ label: 'Green Lantern' });
    await field('untitledMultipleSelectEnum').and(page.locator('[value=Piano]')).check();
    await form.locator('button.main').click();
    await page.locator('.ask').first().waitFor({ state: 'detached' });
    await page.locator('#talk .agent').first().waitFor();
    await gone(page, '#working');
    return { faults, asked, isInChat, findings, scroll, types, isHeld };
  },

  // What was used is drawn, and stands in a table beside it.
  async usageChart() {
    const { page, faults } = await enter();
    const database = new DatabaseSync(given.database);
    database.exec('PRAGMA busy_timeout = 10000');
    const today = Math.floor(Date.now() / 86_400_000);
    const insert = database.prepare('INSERT INTO usage_days VALUES (?, ?, ?, ?, 0, ?, ?, 0)');
    for (let ago = 1; ago <= 5; ago += 1) insert.run(today - ago, 'acme', 'm', ago, 1000 * ago, 100 * (6 - ago));
    database.close();
    await page.goto(`${base}/usage`);
    const canvas = page.locator('#usage-chart canvas');
    await canvas.waitFor();
    // Points of the chart in the colours of its lines.
    const drawn = await canvas.evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const count = (ink) => {
        const probe = document.createElement('span');
        probe.className = `ink-${ink}`;
        document.body.append(probe);
        const [red, green, blue] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
        probe.remove();
        let found = 0;
        for (let at = 0; at < data.length; at += 4) {
          if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) found += 1;
        }
        return found;
      };
      return { input: count('accent'), output: count('good') };
    });
    const legend = await page.locator('#usage-chart .u-legend .u-label').allInnerTexts();
    const heads = await page.locator('#usage-table th[data-series]').allInnerTexts();
    const rows = await page.locator('#usage-table tbody tr').evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll('[data-value]')].map((cell) => Number(cell.dataset.value))),
    );
    const isPlainHidden = await page.locator('[data-plain-charts]').isHidden();
    const findings = await runAxe(page, 'chart', true);
    await page.setViewportSize({ width: 320, height: 640 });
    await page.waitForFunction(() => document.querySelector('#usage-chart .uplot').clientWidth <= 320);
    const scroll = await findScroll(page);
    return { faults, drawn, legend, heads, rows, isPlainHidden, findings, scroll };
  },

  // A conversation gets a name and is deleted, after it was asked about.
  async conversation() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/conversations`);
    await page.locator('main a', { hasText: 'hello there' }).first().click();
    await page.locator('summary', { hasText: 'Rename' }).click();
    await page.locator('#title').fill('A first <b>talk</b>');
    await page.locator('form[action="/do/rename_session"] button').click();
    await page.getByText('The conversation has its new title.').waitFor();
    const title = await page.locator('h1').innerText();
    const doomed = page.locator('form[action="/do/delete_session"]');
    const isHidden = await doomed.isHidden();
    await page.locator('details.danger > summary').click();
    const warning = await doomed.innerText();
    await doomed.locator('button').click();
    await page.getByText('The conversation is deleted.').waitFor();
    const left = await page.locator('main table').count();
    return { faults, title, isHidden, warning, left };
  },

  // A file that is dropped on the form is sent, and is there.
  async dropFile() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/files`);
    const dataTransfer = await page.evaluateHandle(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(['this was dropped'], 'dropped.txt', { type: 'text/plain' }));
      return transfer;
    });
    await page.locator('form[data-upload]').dispatchEvent('drop', { dataTransfer });
    await page.locator('main a', { hasText: /^dropped\.txt$/ }).first().click();
    await page.locator('main').getByText('this was dropped').first().waitFor();
    return { faults };
  },

  // Several files that are dropped are sent together; those that have no room are not sent at all.
  async dropFiles() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/files`);
    const drop = async (files) => {
      const dataTransfer = await page.evaluateHandle((files) => {
        const transfer = new DataTransfer();
        for (const [name, size] of files) transfer.items.add(new File(['x'.repeat(size)], name, { type: 'text/plain' }));
        return transfer;
      }, files);
      await page.locator('form[data-upload]').dispatchEvent('drop', { dataTransfer });
    };
    let sent = 0;
    page.on('request', (request) => (sent += request.url().endsWith('/files/upload') ? 1 : 0));
    await drop([['small.txt', 10], ['huge.bin', 3 << 20]]);
    const refused = page.locator('#message', { hasText: 'huge.bin' });
    await refused.waitFor();
    const reason = await refused.innerText();
    const sentAtFirst = sent;
    await page.evaluate(() => {
      const progress = document.querySelector('form[data-upload] progress');
      new MutationObserver(() => {
        if (!progress.hidden) sessionStorage.setItem('progress', 'shown');
      }).observe(progress, { attributes: true });
    });
    await drop([['one.txt', 10], ['two.txt', 400_000]]);
    for (const name of ['one.txt', 'two.txt']) await page.locator('main a', { hasText: new RegExp(`^${name.replace('.', '\\.')}$`) }).first().waitFor();
    const progress = await page.evaluate(() => sessionStorage.getItem('progress'));
    return { faults, reason, sentAtFirst, sent, progress };
  },

  // A browser has six connections to a host. More pages than that stay current, whichever of them go, and load.
  async manyPages() {
    const { page, faults } = await enter();
    const pages = [page];
    while (pages.length < 9) pages.push(await page.context().newPage());
    for (const one of pages) await one.goto(`${base}/tenants`);
    const show = (one, tenant) => visible(one, `main a[href="/tenants/${tenant}"]`);
    await pause('open');
    for (const one of pages) await show(one, 'meanwhile');
    // The page with the stream goes, and another one takes it over.
    await pages.shift().close();
    await pause('closed');
    for (const one of pages) await show(one, 'afterwards');
    // The same with runs, each of which has a stream of its own.
    const address = `${base}${given.run}`;
    for (const one of pages) await one.goto(address);
    await pause('watching');
    for (const one of pages) await one.locator('.state.completed, .state.cancelled').first().waitFor();
    const streams = await pages[0].evaluate(async () => (await navigator.locks.query()).held.map((lock) => lock.name));
    return { faults, pages: pages.length, streams };
  },

  // A session ends under a page on which somebody types: they sign in again, and it is all there.
  async sessionEnds() {
    const { page, faults } = await enter();
    const again = async () => {
      await page.locator('#token').waitFor();
      await page.fill('#token', token);
      await page.locator('#sign-in button.main').click();
    };
    await page.goto(`${base}/tenants?search=a`);
    const id = page.locator('#new-id');
    if (!(await id.isVisible())) await page.locator('details:has(#new-id) > summary').click();
    await id.fill('half-typ');
    await page.locator('#new-labels').fill('plan = <b>gold</b>\nsecond');
    await gone(page, '#connection');
    await pause('typed');
    await again();
    await page.waitForURL(/\/tenants\?search=a$/);
    await page.locator('#new-id').waitFor({ state: 'visible' });
    const restored = { id: await id.inputValue(), labels: await page.locator('#new-labels').inputValue() };
    // Sent before the page has noticed.
    await page.route(/\/live/, (route) => route.abort());
    await page.goto(`${base}/tenants/acme/chat`);
    await page.locator('#words').fill('only <b>once</b>');
    await pause('written');
    await page.locator('#words').press('Enter');
    await page.getByText('Your session has ended.').waitFor();
    await again();
    await page.getByRole('button', { name: 'Send it again' }).click();
    await page.locator('#talk .user').getByText('only <b>once</b>').first().waitFor();
    const others = faults.filter((fault) => !/ERR_|Failed to (load|fetch)/.test(fault.detail));
    return { faults: others, restored, address: new URL(page.url()).pathname };
  },

  // A link signs in by itself; without scripts, by the code that stands in it.
  async links() {
    const results = [];
    const faults = [];
    for (const [withoutScripts, link] of [[false, given.links[0]], [true, given.links[1]]]) {
      const { context, faults: own } = await openContext(browser, base, { withoutScripts });
      const page = await context.newPage();
      const url = new URL(link);
      await page.goto(`${base}${url.pathname}${url.hash}`);
      if (withoutScripts) {
        await page.locator('#code').fill(new URLSearchParams(url.hash.slice(1)).get('code'));
        await page.locator('form:has(#code) button').click();
      }
      await page.waitForURL((address) => address.pathname === '/');
      const who = await page.locator('.who bdi').first().textContent();
      results.push({ withoutScripts, who, address: page.url().slice(base.length) });
      faults.push(...own);
      await context.close();
    }
    return { faults, results };
  },

  // Signing in and out at a provider that others wrote.
  async provider() {
    const { context, faults } = await openContext(browser, base, { others: given.issuer });
    const page = await context.newPage();
    await page.goto(`${base}/tenants?search=x`);
    await page.locator('a.button.main').click();
    await page.waitForURL((address) => address.href.startsWith(`${base}/tenants`));
    const address = page.url().slice(base.length);
    const who = await page.locator('.who bdi').first().innerText();
    const mayCreate = (await page.locator('form[action="/do/create_tenant"]').count()) > 0;
    const mayMint = (await page.locator('a[href="/tokens"]').count()) > 0;
    await page.locator('form[action="/sign-out"] button').click();
    // The page that says so leads to the provider at once.
    await page.waitForURL((address) => address.href.startsWith(given.issuer));
    await page.goto(`${base}/tenants`);
    const isOut = new URL(page.url()).pathname === '/sign-in';
    const others = faults.filter((fault) => !(fault.rule === 'outside-request' && fault.detail.startsWith(given.issuer)));
    return { faults: others, address, who, mayCreate, mayMint, isOut };
  },

  // What a screen reader is told: that a run waits and that one has ended, on the page of the run and on any other.
  async announcements() {
    const { page, faults, loads } = await enter();
    await page.goto(`${base}/tenants`);
    await gone(page, '#connection');
    const before = loads();
    await page.evaluate(() => {
      globalThis.said = [];
      const place = document.getElementById('announce');
      new MutationObserver(() => globalThis.said.push(place.textContent)).observe(place, { childList: true });
    });
    const other = await page.context().newPage();
    const start = await startRun(other, 'think it over');
    await start.click();
    await announced(other, 'The run waits for an approval.');
    await announced(page, 'A run waits for your approval.');
    await other.locator('button[name=choice][value=once]').first().click();
    await announced(page, 'A run has ended.');
    const region = await page.evaluate(() => {
      const place = document.getElementById('announce');
      const { display, visibility } = getComputedStyle(place);
      return { role: place.getAttribute('role'), isThere: display !== 'none' && visibility === 'visible' };
    });
    const said = await page.evaluate(() => globalThis.said);
    return { faults, region, said, reloads: loads() - before };
  },

  // A page that renews itself leaves alone what somebody fills in.
  async sparedForms() {
    const { page, faults, loads } = await enter();
    await page.goto(`${base}/tenants`);
    await gone(page, '#connection');
    const before = loads();
    const id = page.locator('#new-id');
    if (!(await id.isVisible())) await page.locator('details:has(#new-id) > summary').click();
    await id.fill('half-typ');
    await pause('typed');
    await visible(page, 'main a[href="/tenants/meanwhile"]');
    const tenant = await id.evaluate((field) => ({
      value: field.value,
      hasFocus: field === document.activeElement,
      isOpen: field.closest('details').open,
    }));
    const reloads = loads() - before;
    await page.goto(`${base}/approvals`);
    const form = page.locator('form.decide').first();
    const reason = form.locator('[name=reason]');
    await reason.fill('not this one');
    const asked = await form.locator('[name=approval_id]').inputValue();
    await pause('reasoned');
    await page.getByText('rm -r others').first().waitFor();
    const approval = {
      value: await reason.inputValue(),
      isSame: (await form.locator('[name=approval_id]').inputValue()) === asked,
    };
    await form.locator('button[value=deny]').click();
    await page.locator(`[id="${asked}"]`).waitFor({ state: 'detached' });
    await page.getByText('rm -r others').first().waitFor();
    return { faults, tenant, approval, reloads };
  },

  // A question is answered on a phone.
  async approveOnPhone() {
    const { page, faults } = await enter({ width: 360, height: 640, touch: true });
    await page.goto(`${base}/approvals`);
    const allow = page.locator('button[name=choice][value=once]').first();
    await allow.scrollIntoViewIfNeeded();
    const box = await allow.boundingBox();
    const shown = await page.locator('main').innerText();
    await allow.tap();
    await gone(page, 'button[name=choice][value=once]');
    return { faults, height: box.height, right: box.x + box.width, shown };
  },

  // A tool of a real server is called by the form that its schema makes.
  async callTool() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants/acme/mcp`);
    await page.locator('main a[href*="/acme/mcp/everything"]').first().click();
    await page.waitForURL(/\/acme\/mcp\/everything/);
    const answers = {};
    const call = async (tool, fields) => {
      await page.goto(`${base}/tenants/acme/mcp/everything?offer=1`);
      // A tenant that sleeps is not woken by looking at its page.
      const wake = page.locator('a[href="?offer=1"]');
      if (await wake.count()) await wake.click();
      await page.locator('main a', { hasText: new RegExp(`^${tool}$`) }).first().click();
      const form = page.locator('#tool-form');
      await form.waitFor();
      for (const [name, value] of Object.entries(fields)) await form.locator(`[name="arg.${name}"]`).fill(value);
      await form.locator('button.main').click();
    };
    const result = page.locator('#result-text');
    await call('echo', { message: 'hello <b>there</b>' });
    await result.getByText('Echo: hello <b>there</b>').waitFor();
    answers.echo = true;
    await call('get-sum', { a: '40', b: '2' });
    await result.getByText('42').waitFor();
    answers.sum = true;
    await call('get-tiny-image', {});
    const image = page.locator('.result-image').first();
    await image.waitFor();
    answers.imageWidth = await image.evaluate((image) => image.decode().then(() => image.naturalWidth));
    return { faults, answers };
  },

  // The Hub ends and comes back under open pages: what somebody has typed is there, in a form and in the chat.
  async restart() {
    const { page, faults, loads } = await enter();
    const talk = await page.context().newPage();
    await talk.goto(`${base}/tenants/acme/chat`);
    await talk.locator('#words').fill('are you there');
    await page.goto(`${base}/tenants`);
    await gone(page, '#connection');
    const id = page.locator('#new-id');
    if (!(await id.isVisible())) await page.locator('details:has(#new-id) > summary').click();
    await id.fill('half-typ');
    const before = loads();
    await pause('open');
    await visible(page, '#connection');
    const banner = await page.locator('#connection').innerText();
    const stale = await page.evaluate(() => document.body.classList.contains('stale'));
    await pause('lost');
    await gone(page, '#connection');
    await pause('back');
    await page.getByText('after-the-restart').first().waitFor();
    const typed = [await id.inputValue(), await talk.locator('#words').inputValue()];
    await talk.locator('#words').press('Enter');
    await talk.locator('#talk .agent').first().waitFor();
    // A stream that ends is an error to the browser; nothing else may be.
    const others = faults.filter((fault) => !/ERR_|Failed to (load|fetch)/.test(fault.detail));
    return { faults: others, banner, stale, typed, reloads: loads() - before };
  },

  // Only the connections of the page are cut: what happened meanwhile is there afterwards.
  async cutStream() {
    const { page, faults, loads } = await enter();
    await page.goto(`${given.proxy}/tenants`);
    await gone(page, '#connection');
    const before = loads();
    await pause('open');
    await visible(page, '#connection');
    await pause('cut');
    await gone(page, '#connection');
    await page.getByText('meanwhile').first().waitFor();
    const others = faults.filter((fault) => !/ERR_|Failed to (load|fetch)|outside/.test(`${fault.rule} ${fault.detail}`));
    return { faults: others.filter((fault) => fault.rule !== 'outside-request'), reloads: loads() - before };
  },

  // Two clicks are one change.
  async submitTwice() {
    const { page, faults } = await enter();
    const start = await startRun(page, 'only once');
    await start.dblclick();
    await page.locator('main a[href*="/acme/runs/run_"], #steps').first().waitFor();
    // The form that was sent, once more: as after a reload of the page behind it.
    await page.goto(`${base}/tenants/acme/runs`);
    const statuses = await page.evaluate(async () => {
      const form = document.querySelector('form[action="/do/create_run"]');
      form.querySelector('textarea').value = 'sent twice';
      const body = new URLSearchParams(new FormData(form));
      const send = () => fetch(form.action, { method: 'POST', body }).then((answer) => answer.status);
      return [await send(), await send()];
    });
    return { faults, statuses };
  },

  // Everything by keys.
  async keyboard() {
    const { page, faults } = await enter();
    await page.goto(`${base}/`);
    await page.keyboard.press('?');
    await visible(page, 'dialog[open]');
    const help = await page.locator('dialog[open]').innerText();
    await page.keyboard.press('Escape');
    await page.locator('dialog[open]').waitFor({ state: 'hidden' });
    await page.keyboard.press('g');
    await page.keyboard.press('t');
    await page.waitForURL(/\/tenants$/);
    await page.waitForLoadState();
    await page.keyboard.press('/');
    const focused = await page.evaluate(() => document.activeElement.type);
    await page.keyboard.type('g a /');
    const typed = await page.evaluate(() => document.activeElement.value);
    const stayed = /\/tenants$/.test(page.url());
    // The first stop leads past the navigation.
    await page.goto(`${base}/tenants`);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const main = await page.evaluate(() => document.activeElement.id);
    // Every page of the navigation has its letter.
    await page.goto(`${base}/tenants`);
    const links = await page
      .locator('nav a[data-key]')
      .evaluateAll((links) => links.map((link) => [link.dataset.key, link.getAttribute('href')]));
    for (const [key, address] of links.filter(([, address]) => address !== '/tenants')) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForURL((url) => url.pathname === address);
    }
    const keys = links.map(([key]) => key);
    const isHelped = keys.every((key) => help.includes(key));
    return { faults, letters: keys.length, distinct: new Set(keys).size, isHelped, focused, typed, stayed, main };
  },

  // Whoever wants no motion sees none.
  async stillness() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants`);
    const countMoving = () =>
      page.evaluate(() => {
        const moves = (element) => {
          const style = getComputedStyle(element);
          return /[1-9]/.test(style.transitionDuration + style.animationDuration) || style.scrollBehavior === 'smooth';
        };
        return [...document.querySelectorAll('*')].filter(moves).length;
      });
    const still = await countMoving();
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    return { faults, still, moving: await countMoving() };
  },

  // Times are those of the reader; the whole time is there when one points at it.
  async times() {
    const faults = [];
    const shown = [];
    for (const zone of ['Asia/Tokyo', 'America/Los_Angeles']) {
      const reader = await enter({ zone });
      await reader.page.goto(`${base}/tenants`);
      const time = reader.page.locator('main time').first();
      const at = new Date(await time.getAttribute('datetime'));
      const expected = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short', timeZone: zone }).format(at);
      const plain = (text) => text.replace(/\s/g, ' ');
      const isOwn = plain(await time.innerText()) === plain(expected);
      shown.push({ expected, isOwn, title: await time.getAttribute('title') });
      faults.push(...reader.faults);
    }
    return { faults, shown };
  },

  // What is written into forms is shown as it was written, and not run.
  async hostileForms() {
    const { page, faults } = await enter();
    await page.goto(`${base}/tenants`);
    const form = page.locator('form[action="/do/create_tenant"]');
    if (!(await form.isVisible())) await page.locator('details:has(form[action="/do/create_tenant"]) > summary').first().click();
    await form.locator('#new-id').fill('typed');
    await form.locator('[name=displayName]').fill(given.hostile);
    await form.locator('button').last().click();
    await page.goto(`${base}/tenants/typed`);
    const title = await page.title();
    const shown = await page.locator('main').innerText();
    await page.goto(`${base}/tenants?search=${encodeURIComponent(given.hostile)}`);
    const search = await page.locator('input[type=search]').first().inputValue();
    const hacked = (await page.evaluate(() => globalThis.hacked)) ?? null;
    return { faults, title, shown, search, hacked };
  },
};

for (const scene of given.scenes) say({ step: 'done', scene, ...(await scenes[scene]()) });
await browser.close();
process.exit(0);
