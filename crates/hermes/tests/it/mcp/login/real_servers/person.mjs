// Somebody with a browser: opens an address, enters a device's code if asked for one, signs in, consents, and says where
// that led.
//
//   person.mjs ADDRESS consent|refuse [CODE]

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);
const [address, decision, code] = process.argv.slice(2);

const browser = await playwright.chromium.launch({
  executablePath: process.env.HERMES_TEST_BROWSER,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});
const page = await browser.newPage();
page.setDefaultTimeout(60_000);
// Fonts and the like would come from the internet.
await page.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
const alerts = [];
page.on('dialog', (dialog) => {
  alerts.push(dialog.message());
  return dialog.dismiss();
});

const whenLoaded = { waitUntil: 'domcontentloaded' };
const pages = [];
await page.goto(address, whenLoaded);
while (await page.locator('form').count()) {
  pages.push(await page.locator('h1').first().innerText());
  if (await page.locator('input[name=user_code]:not([type=hidden])').count()) {
    await page.fill('input[name=user_code]', code);
  }
  if (await page.locator('input[name=login]').count()) {
    await page.fill('input[name=login]', 'ada');
    await page.fill('input[name=password]', 'lovelace');
  }
  const next = decision === 'refuse' ? page.locator('a[href$="/abort"]') : page.locator('button[type=submit]');
  // The next page may have the same address.
  const navigated = page.waitForEvent('framenavigated');
  await next.first().click();
  await navigated;
  await page.waitForLoadState('domcontentloaded');
}
const text = await page.locator('body').innerText();
console.log(JSON.stringify({ pages, url: page.url(), text, alerts }));
await browser.close();
