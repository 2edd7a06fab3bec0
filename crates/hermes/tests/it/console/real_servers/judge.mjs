// What is wrong with a page: axe-core, html-validate, and what they do not look for.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { rules } from './html_rules.mjs';

const packages = process.env.HERMES_TEST_CONSOLE;
const axeSource = readFileSync(`${packages}/axe-core/axe.min.js`, 'utf8');
const { HtmlValidate } = createRequire(`${packages}/`)('html-validate');
const htmlValidate = new HtmlValidate({ root: true, extends: ['html-validate:recommended'], rules });

const hash = (text) => createHash('sha256').update(text).digest('base64');

export const judgeSource = (text) =>
  htmlValidate.validateStringSync(text).results.flatMap((result) =>
    result.messages.map((message) => ({
      rule: `html/${message.ruleId}`,
      detail: `${message.message} (line ${message.line}: ${text.split('\n')[message.line - 1]?.slice(Math.max(0, message.column - 60), message.column + 60)})`,
    })),
  );

// What axe-core has seen in a corner. A page is its content and what is around it: what was there before is not judged again.
// Where one is in the navigation, and the values that differ with every answer, are of no matter.
const seen = new Set();
const findNew = async (page, corner) => {
  const parts = await page.evaluate(() => {
    const copy = document.body.cloneNode(true);
    const main = copy.querySelector('main');
    const content = main?.outerHTML ?? '';
    main?.remove();
    for (const link of copy.querySelectorAll('[aria-current]')) link.removeAttribute('aria-current');
    for (const place of copy.querySelectorAll('input[name=next]')) place.remove();
    return { content, around: copy.outerHTML, csrf: document.body.dataset.csrf };
  });
  const clean = (text) =>
    text
      .replaceAll(parts.csrf || '\0', '')
      .replace(/name="once" value="[^"]*"/g, '')
      .replace(/<bdi>[^<]*<\/bdi>\s*<input type="hidden" name="csrf"/g, '');
  const isNew = (text) => {
    const key = corner + hash(clean(text));
    return !seen.has(key) && Boolean(seen.add(key));
  };
  return { content: isNew(parts.content), around: isNew(parts.around) };
};

// Rules that depend on colours and on what is where: the others find in one corner what they find in the next.
const LOOKS = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable', 'target-size'];

// Judges a page by all rules, or by those of its looks.
export const runAxe = async (page, corner, isWhole, within) => {
  const news = await findNew(page, corner + (within ?? ''));
  if (!news.content && !news.around) return [];
  const place = within ?? (news.around ? 'html' : 'main');
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeSource);
  const rules = isWhole ? { rules: { 'target-size': { enabled: true } } } : { runOnly: LOOKS };
  const options = { resultTypes: ['violations'], preload: false, ...rules };
  return page.evaluate(
    async ([place, options]) => {
      const result = await globalThis.axe.run(place, options);
      return result.violations.map((violation) => ({
        rule: `axe/${violation.id}`,
        detail: `${violation.help}: ${violation.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 160)}`).join(' | ')}`,
      }));
    },
    [place, options],
  );
};

// What a page shows only on request is judged too.
export const openDetails = (page) =>
  page.evaluate(() => {
    for (const details of document.querySelectorAll('details')) details.open = true;
  });

export const findScroll = (page) =>
  page.evaluate(() => {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return null;
    const wide = [...document.querySelectorAll('body *')].filter((element) => {
      const scrolls = (node) => node && (/(auto|scroll|hidden)/.test(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
      return element.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(element.parentElement);
    });
    const names = wide.slice(-3).map((element) => element.outerHTML.slice(0, 140));
    return `${root.scrollWidth} of ${root.clientWidth} px: ${names.join(' | ')}`;
  });

// A mark that turns the direction of writing must not reach what stands behind the text that has it: the text is isolated,
// or nothing of the same block follows.
export const findTurned = (page) =>
  page.evaluate(() => {
    const isInline = (element) => /^(inline|contents)$/.test(getComputedStyle(element).display);
    const isIsolated = (element) => /isolate|plaintext/.test(getComputedStyle(element).unicodeBidi);
    // The block that a text belongs to, or null if it is isolated in there.
    const blockOf = (text) => {
      let element = text.parentElement;
      for (; element && isInline(element); element = element.parentElement) if (isIsolated(element)) return null;
      return element;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    let turned = null;
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (!text.data.trim() || text.parentElement.closest('script, noscript, textarea, option, title')) continue;
      const block = blockOf(text);
      if (turned && block === turned.block) found.push(`${turned.text.slice(0, 80)} turns ${text.data.trim().slice(0, 80)}`);
      const at = text.data.lastIndexOf('\u202e');
      const isOpen = at >= 0 && !text.data.slice(at).includes('\u2069');
      turned = isOpen && block ? { block, text: block.outerHTML } : null;
    }
    return found.slice(0, 3);
  });
