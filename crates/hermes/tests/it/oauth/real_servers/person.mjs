// Somebody with a browser: opens an address, signs in, consents, and says where that led.
//
//   person.mjs ADDRESS [refuse]

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);
const [address, decision] = process.argv.slice(2);

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
  if (await page.locator('input[name=login]').count()) {
    await page.fill('input[name=login]', 'ada');
    await page.fill('input[name=password]', 'lovelace');
  }
  const next = decision === 'refuse' ? page.locator('a[href$="/abort"]') : page.locator('button[type=submit]');
  const before = page.url();
  await next.first().click();
  await page.waitForURL((url) => url.href !== before, whenLoaded);
}
const text = await page.locator('body').innerText();
console.log(JSON.stringify({ pages, url: page.url(), text, alerts }));
await browser.close();
