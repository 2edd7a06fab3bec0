// Shows the page of a run while very many of its events come, and measures the processor time of the browser.
//
//   run_log.mjs '{"base": "http://…", "token": "…", "page": "/tenants/…/runs/…", "seconds": 60, "eventsPerSecond": 1000}'
//
// No agent says that much, and the Hub would join it: so the page comes through a proxy in this process, which makes the
// events itself: words, and a call of a tool with every hundredth.

import http from 'node:http';

const { default: playwright } = await import(`${process.env.HERMES_TEST_OAUTH}/playwright-core/index.js`);
const { base, token, page: path, seconds, eventsPerSecond } = JSON.parse(process.argv[2]);

const LAST = 'the-last-event';
const PIECES_PER_SECOND = 50;
let whenLastWasSent;
let stream;
const hub = new URL(base);
const proxy = http.createServer((request, response) => {
  if (request.url.startsWith(`${path}/events`)) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write(': open\n\n');
    stream = response;
    return;
  }
  const { host, port } = { host: hub.hostname, port: hub.port };
  const upstream = http.request({ host, port, path: request.url, method: request.method, headers: { ...request.headers, host: hub.host } });
  upstream.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  upstream.on('error', () => response.destroy());
  response.on('close', () => upstream.destroy());
  request.pipe(upstream);
});
await new Promise((ready) => proxy.listen(0, '127.0.0.1', ready));
const front = `http://127.0.0.1:${proxy.address().port}`;

let number = 0;
const write = (event) => {
  number += 1;
  const time = new Date().toISOString();
  return `id: ${1000 + number}\ndata: ${JSON.stringify({ seq: 1000 + number, time, ...event })}\n\n`;
};
const nextEvents = () => {
  if (number % 100 === 98) {
    const callId = `call_${number}`;
    return (
      write({ event: 'tool.started', callId, tool: 'terminal', preview: `ls -l /tmp/${number}` }) +
      write({ event: 'tool.completed', callId, tool: 'terminal', duration: 0.01, error: false })
    );
  }
  return write({ event: 'message.delta', delta: `word${number} ` });
};
// Sends what is due by the clock, so that a late timer loses nothing.
const sendEvents = (total) =>
  new Promise((done) => {
    const begun = Date.now();
    const timer = setInterval(() => {
      const due = Math.min(total, Math.floor(((Date.now() - begun) / 1000) * eventsPerSecond));
      let text = '';
      while (number < due) text += nextEvents();
      if (text) stream.write(text);
      if (number < total) return;
      clearInterval(timer);
      whenLastWasSent = Date.now();
      stream.write(write({ event: 'message.delta', delta: LAST }));
      done();
    }, 1000 / PIECES_PER_SECOND);
  });

const browser = await playwright.chromium.launch({
  executablePath: process.env.HERMES_TEST_BROWSER,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});
const page = await browser.newPage();
// Cookies are those of the host, whatever the port.
await page.goto(`${base}/sign-in`);
await page.fill('#token', token);
await page.click('button.main');
await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
await page.goto(`${front}${path}`, { waitUntil: 'load' });
for (const begun = Date.now(); !stream; await page.waitForTimeout(50)) {
  if (Date.now() - begun > 20_000) throw new Error('the page of the run does not open its stream of events');
}
const system = await browser.newBrowserCDPSession();
const processorTime = async () => {
  const { processInfo } = await system.send('SystemInfo.getProcessInfo');
  return processInfo.reduce((sum, process) => sum + process.cpuTime, 0);
};
const before = await processorTime();
const begun = Date.now();
await sendEvents(seconds * eventsPerSecond);
await page.getByText(LAST).first().waitFor({ state: 'attached', timeout: 60_000 });
const behindMilliseconds = Date.now() - whenLastWasSent;
const elapsed = (Date.now() - begun) / 1000;
const cpuPercent = ((await processorTime()) - before) / elapsed * 100;
const rows = await page.locator('#steps > li').count();
await browser.close();
console.log(JSON.stringify({ cpuPercent, behindMilliseconds, rows, events: number }));
process.exit(0);
