// Loads the overview with an empty cache on a throttled network, as often as is said: the bytes over the wire, and the times
// until everything has been loaded.
//
//   first_page.mjs '{"base": "http://…", "token": "…", "repetitions": 10}'

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);
const { base, token, repetitions } = JSON.parse(process.argv[2]);

// "3G Fast" of WebPageTest.
const NETWORK = { offline: false, latency: 150, downloadThroughput: 1_600_000 / 8, uploadThroughput: 768_000 / 8 };

const browser = await playwright.chromium.launch({
  executablePath: process.env.HERMES_TEST_BROWSER,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});
const first = await browser.newContext();
const signIn = await first.newPage();
await signIn.goto(`${base}/sign-in`);
await signIn.fill('#token', token);
await signIn.click('button.main');
await signIn.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
const storageState = await first.storageState();
await first.close();

const milliseconds = [];
let bytes = 0;
for (let number = 0; number < repetitions; number += 1) {
  const context = await browser.newContext({ storageState });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', NETWORK);
  let received = 0;
  session.on('Network.loadingFinished', (event) => (received += event.encodedDataLength));
  await page.goto(`${base}/`, { waitUntil: 'load' });
  const timing = await page.evaluate(() => performance.getEntriesByType('navigation')[0].loadEventStart);
  milliseconds.push(timing);
  bytes = Math.max(bytes, received);
  await context.close();
}
await browser.close();
console.log(JSON.stringify({ bytes, milliseconds }));
