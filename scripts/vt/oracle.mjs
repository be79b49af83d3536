// Writes what xterm.js makes of each recording, next to it, for internal/guest/vt's
// tests. Needs: npm install --no-save @xterm/headless@6 @xterm/addon-unicode11
//
// usage: node scripts/vt/oracle.mjs internal/guest/vt/testdata
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'

const require = createRequire(path.join(process.cwd(), 'x.js'))
const { Terminal } = require('@xterm/headless')
const { Unicode11Addon } = require('@xterm/addon-unicode11')

const color = (mode, value) => (mode === 0 ? '' : mode === 50331648 ? '#' + value.toString(16).padStart(6, '0') : String(value))

// style writes down how a cell looks: f(oreground), b(ackground), attributes.
function style(c) {
  const s = []
  const fg = color(c.getFgColorMode(), c.getFgColor())
  const bg = color(c.getBgColorMode(), c.getBgColor())
  if (fg) s.push('f' + fg)
  if (bg) s.push('b' + bg)
  for (const [name, on] of [['bold', c.isBold()], ['faint', c.isDim()], ['italic', c.isItalic()], ['underline', c.isUnderline()], ['blink', c.isBlink()],
    ['inverse', c.isInverse()], ['hidden', c.isInvisible()], ['strike', c.isStrikethrough()], ['overline', c.isOverline()]]) {
    if (on) s.push(name)
  }
  return s.join(' ')
}

// runs returns a line as [text, style, text, style…], without plain blanks at its end.
function runs(line) {
  const list = []
  for (let x = 0; x < line.length; x++) {
    const c = line.getCell(x)
    if (c.getWidth() === 0) continue
    const s = style(c)
    const text = c.getChars() || ' '
    if (list.length && list[list.length - 1] === s) list[list.length - 2] += text
    else list.push(text, s)
  }
  if (list.length && list[list.length - 1] === '') {
    list[list.length - 2] = list[list.length - 2].trimEnd()
    if (!list[list.length - 2]) list.splice(-2)
  }
  return list
}

for (const name of fs.readdirSync(process.argv[2]).filter((n) => n.endsWith('.raw'))) {
  const file = path.join(process.argv[2], name)
  const t = new Terminal({ rows: 24, cols: 80, scrollback: 1000, allowProposedApi: true })
  t.loadAddon(new Unicode11Addon())
  t.unicode.activeVersion = '11'
  await new Promise((done) => t.write(fs.readFileSync(file), done))
  const b = t.buffer.active
  const main = t.buffer.normal
  const screen = []
  for (let y = 0; y < t.rows; y++) screen.push(runs(b.getLine(b.baseY + y)))
  const history = []
  for (let y = 0; y < main.baseY; y++) history.push(main.getLine(y).translateToString(true))
  const out = { row: b.cursorY, col: b.cursorX, alternate: b.type === 'alternate', screen, history }
  fs.writeFileSync(file.replace(/raw$/, 'json'), JSON.stringify(out) + '\n')
  console.log(name)
}
