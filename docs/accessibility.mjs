// Every kind of page of a built site in a browser: axe's rules of WCAG 2 A and AA, and nothing wider than the screen.
// node accessibility.mjs SITE MODULES BROWSER
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, resolve } from 'node:path';

const [site, modules, executablePath] = process.argv.slice(2).map((word) => resolve(word));
const require = createRequire(join(modules, 'x.js'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// All written pages; of the reference, which is made by one template, every twentieth.
const pages = readdirSync(site, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.html'))
  .map((entry) => relative(site, join(entry.parentPath ?? entry.path, entry.name)))
  .filter((name) => !name.startsWith('_static'))
  .sort()
  .filter((name, i) => !name.includes('generated') || i % 20 === 0);

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
let faults = 0;
for (const colorScheme of ['light', 'dark']) {
  for (const [width, height] of [[1300, 900], [390, 844]]) {
    const context = await browser.newContext({ colorScheme, reducedMotion: 'reduce', viewport: { width, height } });
    const page = await context.newPage();
    for (const name of pages) {
      await page.goto(`file://${join(site, name)}`);
      await page.evaluate(axe);
      const told = await page.evaluate(() => axe.run({ runOnly: ['wcag2a', 'wcag2aa'] }));
      const lines = told.violations.map((v) => `${v.id}: ${v.nodes[0].target} (${v.nodes.length} times). ${v.help}`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) lines.push(`${over} pixels wider than the screen`);
      for (const line of lines) console.log(`${name} (${colorScheme}, ${width} wide): ${line}`);
      faults += lines.length;
    }
    await context.close();
  }
}
await browser.close();
console.log(`${pages.length} pages, light and dark, phone and desktop: ${faults} faults`);
process.exit(faults ? 1 : 0);
