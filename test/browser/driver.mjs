// Runs the commands of browser.go in a browser: one JSON object per line, one answer for each.
import { createRequire } from 'node:module'
import readline from 'node:readline'

const [, , playwright, chromium] = process.argv
const { chromium: engine } = createRequire(import.meta.url)(playwright)
const pages = new Map()
let browser

const commands = {
  async start() {
    browser = await engine.launch({ executablePath: chromium, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--host-resolver-rules=MAP *.evil.test 127.0.0.1'] })
  },
  async open(c) {
    const context = await browser.newContext({
      viewport: { width: c.width, height: c.height }, colorScheme: c.light ? 'light' : 'dark', hasTouch: Boolean(c.touch), isMobile: Boolean(c.touch),
      ignoreHTTPSErrors: true, permissions: [], ...(c.half && { deviceScaleFactor: 0.5 }), ...(c.time && { locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce' }),
    })
    if (c.time) await context.clock.setFixedTime(c.time)
    const page = await context.newPage()
    const messages = []
    page.on('console', (m) => { if (['warning', 'error'].includes(m.type())) messages.push(m.text()) })
    page.on('pageerror', (e) => messages.push(String(e)))
    pages.set(c.page, { page, context, messages })
    await page.goto(c.text, { timeout: c.timeout })
  },
  goto: (c, p) => p.page.goto(c.text, { timeout: c.timeout }).then(() => null),
  eval: (c, p) => p.page.evaluate(c.text),
  // Playwright's own waiting evaluates text in the page, which a strict policy forbids.
  async wait(c, p) {
    let why = 'it did not become true'
    const holds = () => p.page.evaluate(c.text).catch((e) => { why = e }) // a page may reload meanwhile
    for (const end = Date.now() + c.timeout; !(await holds()); ) {
      if (Date.now() > end) throw new Error(why)
      await new Promise((done) => setTimeout(done, 30))
    }
  },
  click: (c, p) => p.page.click(c.text, { timeout: c.timeout }),
  fill: (c, p) => p.page.fill(c.text, c.input ?? '', { timeout: c.timeout }),
  select: (c, p) => p.page.selectOption(c.text, c.input, { timeout: c.timeout }).then(() => null),
  files: (c, p) => p.page.setInputFiles(c.text, c.input, { timeout: c.timeout }),
  type: (c, p) => p.page.keyboard.type(c.text),
  press: (c, p) => p.page.keyboard.press(c.text),
  resize: (c, p) => p.page.setViewportSize({ width: c.width, height: c.height }),
  offline: (c, p) => p.context.setOffline(Boolean(c.on)),
  console: (c, p) => p?.messages ?? [],
  screenshot: async (c, p) => (await p.page.screenshot({ timeout: c.timeout })).toString('base64'),
  async heap(c, p) {
    p.cdp ??= await p.context.newCDPSession(p.page)
    for (let i = 0; i < 2; i++) await p.cdp.send('HeapProfiler.collectGarbage') // the second takes what the first has freed in the DOM
    return { Bytes: (await p.cdp.send('Runtime.getHeapUsage')).usedSize, Nodes: (await p.cdp.send('Memory.getDOMCounters')).nodes }
  },
  async close(c, p) {
    pages.delete(c.page)
    await p.context.close()
  },
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const c = JSON.parse(line)
  let answer
  try {
    answer = { value: (await commands[c.do](c, pages.get(c.page))) ?? null }
  } catch (e) {
    answer = { error: String(e?.message ?? e) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
await browser?.close()
process.exit(0)
