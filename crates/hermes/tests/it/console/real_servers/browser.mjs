// A person with a browser at the console: the system's Chromium, and everything that must not happen on any page.

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);

export const TIMEOUT = 60_000;

export const startBrowser = () =>
  playwright.chromium.launch({
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

// A context for one person. `faults` collects what no page may do: errors, policy violations, requests to others, dialogs.
// `others` is where pages lie that are not the console's: what they do is theirs.
export const openContext = async (browser, base, options = {}) => {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
    colorScheme: options.dark ? 'dark' : 'light',
    javaScriptEnabled: !options.withoutScripts,
    locale: options.language ?? 'en',
    timezoneId: options.zone,
    reducedMotion: 'reduce',
    hasTouch: options.touch ?? false,
    acceptDownloads: false,
  });
  context.setDefaultTimeout(TIMEOUT);
  const faults = [];
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) =>
      console.error(`violates the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
    );
  });
  context.on('page', (page) => {
    const isTheirs = (url) => Boolean(options.others) && url.startsWith(options.others);
    page.on('pageerror', (error) => {
      if (!isTheirs(page.url())) faults.push({ rule: 'uncaught-error', detail: error.message });
    });
    page.on('dialog', (dialog) => {
      faults.push({ rule: 'dialog', detail: dialog.message() });
      return dialog.dismiss();
    });
    page.on('console', (message) => {
      const isOwn = !isTheirs(page.url()) && !isTheirs(message.location().url);
      if (message.type() === 'error' && isOwn) faults.push({ rule: 'console-error', detail: message.text() });
    });
    page.on('request', (request) => {
      const url = request.url();
      const isOwn = url.startsWith(`${base}/`) || url.startsWith('data:') || url.startsWith('blob:');
      // What leads to them is for whoever leads there to judge.
      const isOfTheirs = !request.isNavigationRequest() && isTheirs(request.frame().url());
      if (!isOwn && !isOfTheirs) faults.push({ rule: 'outside-request', detail: url });
    });
  });
  return { context, faults };
};

export const signIn = async (page, base, token) => {
  await page.goto(`${base}/sign-in`, { waitUntil: 'load' });
  await page.fill('#token', token);
  await page.click('button.main');
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
};

// The same without the page, which is of no interest where pages are looked at.
export const signInDirectly = async (context, base, token) => {
  const headers = { origin: base, 'sec-fetch-site': 'same-origin' };
  const answer = await context.request.post(`${base}/sign-in`, { form: { token }, headers, maxRedirects: 0 });
  if (answer.status() !== 303) throw new Error(`sign-in answers ${answer.status()}`);
};
