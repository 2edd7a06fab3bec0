// Walks through every page of the console as several readers, and prints what is wrong with them as JSON.
//
//   walk.mjs '{"base": "http://…", "readers": [{"name": "admin", "token": "…", "also": ["/tenants/a"]}]}'
//
// Every reader follows all links with scripts, and sees the same pages without them. Of pages of one kind, as of the runs of
// a tenant, one is looked at, and those of `also`.
//
// Not every combination is judged by everything. A width changes what is where, a theme changes colours, and neither is asked
// of the Hub: a page is loaded once with scripts and once without, and is turned from one corner to the other where it stands.
// Each reader sees each page in these four corners, in which every two of width, theme and scripts come together:
//
//   scripts, English   320 px dark    axe-core, places        no scripts, German   320 px light   places
//   scripts, English   1280 px light  axe-core, places        no scripts, German   1280 px dark   places
//
// The source is judged by html-validate once for each reader. axe-core judges what no reader before had in the same corner:
// by all of its rules in the first of the two, by those of colours and places in the second. A page is loaded in the corner in
// which the one before was left: half of them on a phone. The first reader also sees each page on a screen of 3840 px.

import { openContext, signInDirectly, startBrowser, TIMEOUT } from './browser.mjs';
import { findScroll, findTurned, judgeSource, openDetails, runAxe } from './judge.mjs';

const { base, readers } = JSON.parse(process.argv[2]);

const CORNERS = {
  wide: { width: 1280, height: 900, dark: false, axe: true },
  phone: { width: 320, height: 640, dark: true, axe: true },
  plainPhone: { width: 320, height: 640, dark: false },
  plainWide: { width: 1280, height: 900, dark: true },
};

const LARGE_SCREEN = { width: 3840, height: 2160 };

// The same for everybody, and long: looked at once by whoever comes first.
const COMMON = ['/docs'];
const commonSeen = new Set();

const findings = [];
const visited = {};
// The operations that pages offer a reader, each with the first page that does.
const offered = {};
const timings = [];

// The address with what differs between pages of one kind taken out.
const pageKind = (address) => {
  const url = new URL(address, base);
  const path = url.pathname
    .replace(/^(\/tenants)\/[^/]+/, '$1/*')
    .replace(/(\/(?:runs|conversations|mcp|cron|groups|skills|webhooks))\/[^/]+/, '$1/*');
  const names = [...new Set(url.searchParams.keys())].sort();
  return `${path}?${names.join('&')}`;
};

const isInside = (address) => address.startsWith('/') && !address.startsWith('//') && !address.startsWith('/assets/');
// Filters and orders may be combined without end; two at once are enough.
const isCombined = (address) => new URL(address, base).searchParams.size > 2;

const readLinks = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('a[href]')].map((link) => {
      const url = new URL(link.getAttribute('href'), location.href);
      return url.origin === location.origin ? url.pathname + url.search : '';
    }),
  );

// The operations of the forms of a page.
const readActions = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('form[action], [formaction]')]
      .map((place) => place.getAttribute('formaction') ?? place.getAttribute('action'))
      .filter((address) => address.startsWith('/do/'))
      .map((address) => address.slice('/do/'.length)),
  );

// Opens an address; nothing if it is not a page, as a download or the API.
const open = async (page, address, add) => {
  const ask = () => page.context().request.get(base + address, { timeout: TIMEOUT });
  let answer;
  try {
    answer = address.startsWith('/v1/') ? await ask() : await page.goto(base + address, { waitUntil: 'load' });
  } catch (error) {
    if (!/Download is starting|ERR_ABORTED/.test(error.message)) throw error;
    answer = await ask();
  }
  if (answer.status() !== 200) add({ rule: 'status', detail: `${answer.status()}` });
  const isPage = (answer.headers()['content-type'] ?? '').startsWith('text/html');
  return isPage ? answer : null;
};

const turnTo = async (page, corner, hasScripts) => {
  await page.emulateMedia({ colorScheme: corner.dark ? 'dark' : 'light' });
  await page.setViewportSize({ width: corner.width, height: corner.height });
  // What scripts do about it, they do before the next frame.
  if (hasScripts) await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
};

const judgeContent = async (page, hasScripts, add) => {
  const content = await page.evaluate(() => ({
    headings: document.querySelectorAll('h1').length,
    isStale: document.body.classList.contains('stale'),
    hacked: globalThis.hacked !== undefined,
  }));
  if (content.headings !== 1) add({ rule: 'one-h1', detail: `${content.headings}` });
  if (hasScripts && content.isStale) add({ rule: 'stale', detail: 'the event stream was not opened' });
  if (content.hacked) add({ rule: 'executed', detail: 'a text of a tenant, model, server or file was run' });
  for (const detail of await findTurned(page)) add({ rule: 'turned', detail });
};

// The help that `?` opens.
const judgeHelp = async (page, name, add) => {
  await page.evaluate(() => document.getElementById('keys').showModal());
  (await runAxe(page, name, true, '#keys')).forEach(add);
  await page.evaluate(() => document.getElementById('keys').close());
};

// Looks at one page in both corners, beginning with the present one. Returns its links.
const lookAt = async (page, address, corners, hasScripts, addTo, isFirst, offers) => {
  const add = addTo(corners[0]);
  const answer = await open(page, address, add);
  if (!answer) return [];
  if (hasScripts) judgeSource(await answer.text()).forEach(add);
  await judgeContent(page, hasScripts, add);
  const links = await readLinks(page);
  for (const action of await readActions(page)) offers[action] ??= address;
  for (const [number, name] of corners.entries()) {
    const corner = CORNERS[name];
    const add = addTo(name);
    if (number > 0) await turnTo(page, corner, hasScripts);
    await openDetails(page);
    const scroll = await findScroll(page);
    if (scroll) add({ rule: 'horizontal-scroll', detail: scroll });
    if (corner.axe) (await runAxe(page, name, number === 0)).forEach(add);
    if (corner.axe && address === '/') await judgeHelp(page, name, add);
  }
  if (hasScripts && isFirst) {
    await page.setViewportSize(LARGE_SCREEN);
    const scroll = await findScroll(page);
    if (scroll) addTo('large')({ rule: 'horizontal-scroll', detail: scroll });
    await turnTo(page, CORNERS[corners.at(-1)], hasScripts);
  }
  return links;
};

const walk = async (browser, reader, corners, known) => {
  const hasScripts = !known;
  const { width, height, dark } = CORNERS[corners[0]];
  const language = hasScripts ? 'en' : 'de';
  const options = { width, height, dark, language, withoutScripts: !hasScripts, touch: !hasScripts };
  const { context, faults } = await openContext(browser, base, options);
  const page = await context.newPage();
  const pages = [];
  const offers = (offered[reader.name] ??= {});
  const visit = async (address) => {
    if (COMMON.includes(address)) {
      if (commonSeen.has(address + hasScripts)) return [];
      commonSeen.add(address + hasScripts);
    }
    const begun = Date.now();
    const isThere = CORNERS[corners[0]].width === page.viewportSize().width;
    if (!isThere) corners.reverse();
    const addTo = (corner) => (finding) => findings.push({ reader: reader.name, corner, page: address, ...finding });
    let links = [];
    try {
      links = await lookAt(page, address, corners, hasScripts, addTo, reader === readers[0], offers);
    } catch (error) {
      addTo(corners[0])({ rule: 'walk', detail: error.message.split('\n')[0] });
    }
    // Errors of the console name the address of what failed; a page that answers 404 is a finding already.
    for (const fault of faults.splice(0)) if (!/status of 40[34]/.test(fault.detail)) addTo(corners[0])(fault);
    timings.push([Date.now() - begun, hasScripts, address]);
    pages.push(address);
    return links;
  };
  await visit('/sign-in');
  await signInDirectly(context, base, reader.token);
  if (known) {
    const paths = new Set(['/sign-in?']);
    for (const address of known) {
      const path = pageKind(address.split('?')[0]);
      if (!paths.has(path)) await visit(address);
      paths.add(path);
    }
  } else {
    const kinds = new Set();
    const waiting = ['/'];
    while (waiting.length) {
      const address = waiting.shift();
      const kind = pageKind(address);
      if (kinds.has(kind)) continue;
      kinds.add(kind);
      const links = (await visit(address)).filter((link) => isInside(link) && !isCombined(link));
      waiting.push(...links);
    }
    for (const address of reader.also ?? []) if (!pages.includes(address)) await visit(address);
  }
  await context.close();
  return pages;
};

const browser = await startBrowser();
for (const reader of readers) {
  const pages = await walk(browser, reader, ['wide', 'phone']);
  await walk(browser, reader, ['plainPhone', 'plainWide'], pages);
  visited[reader.name] = pages;
}
await browser.close();
timings.sort((a, b) => b[0] - a[0]);
const seconds = timings.reduce((sum, [took]) => sum + took, 0) / 1000;
console.log(JSON.stringify({ visited, offered, findings, seconds, loads: timings.length, slowest: timings.slice(0, 8) }));
