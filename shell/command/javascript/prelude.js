(function (host, argv, env, cwd0, mainFile) {
'use strict'
// Functions of the engine that work through a huge length without a check of the deadline. Real arrays must be short; what
// is like an array, or is a proxy, whose length may differ at each look, is reached through functions: at each call the engine
// looks at the deadline.
const tooLong = 1 << 25, RealProxy = Proxy, proxies = new WeakSet()
const { apply } = Reflect, note = p => { proxies.add(p); return p }
const slowTraps = { get (o, k) { return o[k] }, has (o, k) { return k in o } }
const guard = v => {
  if (v === null || typeof v !== 'object' && typeof v !== 'function' || ArrayBuffer.isView(v)) return v
  if (!Array.isArray(v) || proxies.has(v)) return new RealProxy(v, slowTraps)
  if (v.length > tooLong) throw new RangeError('Invalid array length')
  return v
}
globalThis.Proxy = new RealProxy(RealProxy, { construct: (f, a) => note(new RealProxy(...a)), get: (f, k) => k === 'revocable' ? (...a) => { const r = RealProxy.revocable(...a); note(r.proxy); return r } : f[k] })
const arrayFrom = Array.from
const { from } = { from (v, ...rest) {
  if (v !== null && typeof v === 'object' && !v[Symbol.iterator]) {
    const d = Object.getOwnPropertyDescriptor(v, 'length')
    if (proxies.has(v) || !d || d.get) v = guard(v)
    else if (d.value > tooLong) throw new RangeError('Invalid array length')
  }
  return apply(arrayFrom, this, [v, ...rest])
} }
Object.defineProperty(Array, 'from', { value: from, writable: true, configurable: true })
const { raw } = { raw (strings, ...values) { const l = Object(strings).raw, n = Math.min(Math.max(Math.trunc(l.length) || 0, 0), 2 ** 53 - 1); let s = ''; for (let i = 0; i < n; i++) { s += String(l[i]); if (i + 1 < n && i < values.length) s += String(values[i]) } return s } }
Object.defineProperty(String, 'raw', { value: raw, writable: true, configurable: true })
for (const proto of [Array.prototype]) for (const name of ['concat', 'copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'flat', 'flatMap', 'forEach', 'includes', 'indexOf', 'join', 'lastIndexOf', 'map', 'reduce', 'reduceRight', 'reverse', 'shift', 'slice', 'some', 'sort', 'splice', 'toLocaleString', 'toReversed', 'toSorted', 'toSpliced', 'unshift', 'with']) {
  const f = proto[name]
  if (!f) continue
  const g = { [name](...a) { const o = guard(this); if (name === 'concat') a = a.map(v => v !== null && typeof v === 'object' && (Array.isArray(v) || v[Symbol.isConcatSpreadable]) ? guard(v) : v); const r = apply(f, o, a); return r === o ? this : r } }[name]
  Object.defineProperty(g, 'length', { value: f.length, configurable: true })
  Object.defineProperty(proto, name, { value: g, writable: true, configurable: true })
}
for (const name of ['indexOf', 'lastIndexOf', 'includes', 'split', 'replaceAll']) {
  const f = String.prototype[name]
  const g = { [name](...a) { if (typeof a[0] === 'string' && a[0].length > 64 && this.length * a[0].length > 1e10) throw new RangeError('Invalid string length'); return apply(f, this, a) } }[name]
  Object.defineProperty(String.prototype, name, { value: g, writable: true, configurable: true })
}
const fail = (code, message, extra) => Object.assign(new Error(message), { code }, extra)
const call = (op, ...a) => {
  const r = host(op, ...a.map(x => x === undefined ? null : x))
  if (typeof r === 'string' && r[0] === '!') { const [code, syscall, path, text] = r.slice(1).split('\u0001'); throw fail(code, `${code}: ${text}${syscall ? ', ' + syscall : ''}${path ? ` '${path}'` : ''}`, syscall ? { errno: -1, syscall, path } : {}) }
  return typeof r === 'string' ? r.slice(1) : r
}
let outBuffer = ''
const flush = () => { if (outBuffer) { const t = outBuffer; outBuffer = ''; call('out', t) } }
const writeOut = t => { outBuffer += t; if (outBuffer.length > 8192) flush() }
const writeErr = t => { flush(); call('err', t) }
// inspect
const ident = /^[a-zA-Z_][a-zA-Z_0-9]*$/
const quote = s => { let q = "'"; if (s.includes("'")) { if (!s.includes('"')) q = '"'; else if (!s.includes('`') && !s.includes('${')) q = '`' }
  return q + s.replace(/[\x00-\x1f\x7f-\x9f\\'"`]/g, c => c === q ? '\\' + c : c === '\\' ? '\\\\' : c >= ' ' && c < '\x7f' ? c : ({ '\n': '\\n', '\t': '\\t', '\r': '\\r', '\b': '\\b', '\f': '\\f', '\v': '\\v' })[c] || '\\x' + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')) + q }
const ctorName = o => { for (let p = o; p; p = Object.getPrototypeOf(p)) { const d = Object.getOwnPropertyDescriptor(p, 'constructor'); if (d && typeof d.value === 'function' && d.value.name) return d.value.name } return null }
function inspect (value, opts) {
  const ctx = { depth: 2, breakLength: 80, compact: 3, sorted: false, showHidden: false, ...(typeof opts === 'object' ? opts : {}), indentationLvl: 0, currentDepth: 0, seen: [], circular: new Map() }
  if (ctx.depth === null) ctx.depth = Infinity
  return formatValue(ctx, value, 0, true)
}
inspect.custom = Symbol.for('nodejs.util.inspect.custom')
inspect.defaultOptions = {}
function formatPrimitive (v) {
  switch (typeof v) {
    case 'string': return quote(v)
    case 'number': return Object.is(v, -0) ? '-0' : String(v)
    case 'bigint': return v + 'n'
    case 'symbol': return v.toString()
  }
  return String(v)
}
function formatValue (ctx, v, level, typed) {
  if (v === null || typeof v !== 'object' && typeof v !== 'function') return formatPrimitive(v)
  const custom = v[inspect.custom]
  if (typeof custom === 'function' && custom !== inspect) { const r = custom.call(v, ctx.depth - level, ctx, inspect); if (r !== v) return typeof r === 'string' ? r : formatValue(ctx, r, level) }
  if (ctx.seen.includes(v)) { if (!ctx.circular.has(v)) ctx.circular.set(v, ctx.circular.size + 1); return `[Circular *${ctx.circular.get(v)}]` }
  return formatRaw(ctx, v, level)
}
function keysOf (v) { return [...Object.keys(v), ...Object.getOwnPropertySymbols(v).filter(s => Object.prototype.propertyIsEnumerable.call(v, s))] }
function formatRaw (ctx, v, level) {
  let keys = keysOf(v), base = '', braces = ['{', '}'], array = false, body = () => []
  const name = ctorName(v), tagged = typeof v[Symbol.toStringTag] === 'string' && v[Symbol.toStringTag] !== name ? `[${v[Symbol.toStringTag]}] ` : ''
  const prefix = (fallback, size) => (name === null ? `[${fallback}${size === undefined ? '' : `(${size})`}: null prototype] ` : `${name}${size === undefined ? '' : `(${size})`} `) + tagged
  if (Array.isArray(v)) {
    array = true; keys = keys.filter(k => typeof k === 'symbol' || !/^(0|[1-9]\d*)$/.test(k))
    braces = [(name !== 'Array' ? prefix('Array', v.length) : '') + '[', ']']
    if (v.length === 0 && keys.length === 0) return braces[0] + ']'
    body = () => { const out = []; let i = 0
      for (; i < v.length && out.length < 100; i++) { if (!(i in v)) { let n = i; while (n < v.length && !(n in v)) n++; out.push(`<${n - i} empty item${n - i > 1 ? 's' : ''}>`); i = n - 1 } else out.push(formatProperty(ctx, v, level, i, true)) }
      if (v.length > i) out.push(`... ${v.length - i} more item${v.length - i > 1 ? 's' : ''}`); return out }
  } else if (v instanceof Set) { braces = [prefix('Set', v.size) + '{', '}']; if (!v.size && !keys.length) return braces[0] + '}'; body = () => { ctx.indentationLvl += 2; const o = [...v].map(x => formatValue(ctx, x, level + 1)); ctx.indentationLvl -= 2; return o }
  } else if (v instanceof Map) { braces = [prefix('Map', v.size) + '{', '}']; if (!v.size && !keys.length) return braces[0] + '}'; body = () => { ctx.indentationLvl += 2; const o = [...v].map(([k, x]) => `${formatValue(ctx, k, level + 1)} => ${formatValue(ctx, x, level + 1)}`); ctx.indentationLvl -= 2; return o }
  } else if (v instanceof Buffer) { let s = ''; for (let i = 0; i < Math.min(50, v.length); i++) s += ' ' + v[i].toString(16).padStart(2, '0'); return `<Buffer${s}${v.length > 50 ? ` ... ${v.length - 50} more byte${v.length > 51 ? 's' : ''}` : ''}>`
  } else if (ArrayBuffer.isView(v) && !(v instanceof DataView)) { array = true; keys = keys.filter(k => typeof k === 'symbol' || !/^\d+$/.test(k)); braces = [prefix('TypedArray', v.length) + '[', ']']; if (!v.length && !keys.length) return braces[0] + ']'; body = () => { const o = []; for (let i = 0; i < Math.min(100, v.length); i++) o.push(formatPrimitive(v[i])); if (v.length > 100) o.push(`... ${v.length - 100} more item${v.length > 101 ? 's' : ''}`); return o }
  } else if (typeof v === 'function') {
    const src = Function.prototype.toString.call(v)
    if (/^class\b/.test(src)) { const s = Object.getPrototypeOf(v); base = `[class ${v.name || '(anonymous)'}${s && s.name ? ` extends ${s.name}` : ''}]` } else { const kind = Object.prototype.toString.call(v).slice(8, -1); base = `[${kind}${v.name ? `: ${v.name}` : ' (anonymous)'}]` }
    if (!keys.length) return base
  } else if (v instanceof RegExp) { base = v.toString(); if (!keys.length) return base
  } else if (v instanceof Date) { base = isNaN(v) ? 'Invalid Date' : v.toISOString(); if (!keys.length) return base
  } else if (v instanceof Error) {
    const head = `${v.name}${v.message ? `: ${v.message}` : ''}`, stack = v.stack ? String(v.stack).trimEnd() : ''
    base = stack ? (stack.startsWith(head) ? stack : `${head}\n${stack}`) : `[${head}]`
    keys = keys.filter(k => k !== 'stack' && k !== 'message')
    if ('cause' in v && !keys.includes('cause')) keys.push('cause')
    if (ctx.indentationLvl) base = base.replaceAll('\n', '\n' + ' '.repeat(ctx.indentationLvl))
    if (!keys.length) return base
  } else if (v instanceof Number || v instanceof String || v instanceof Boolean) { base = `[${name}: ${formatPrimitive(v.valueOf())}]`; if (v instanceof String) keys = keys.filter(k => !/^\d+$/.test(k)); if (!keys.length) return base
  } else if (v instanceof Promise) { braces = ['Promise {', '}']; if (!keys.length) return 'Promise { <pending> }'
  } else if (v instanceof WeakMap || v instanceof WeakSet) return `${name} { <items unknown> }`
  else if (Object.prototype.toString.call(v) === '[object Arguments]') { array = true; braces = ['[Arguments] [', ']']; keys = []; body = () => Array.from(v, x => formatValue(ctx, x, level + 1))
  } else { if (name !== 'Object' || tagged) braces[0] = prefix('Object') + '{'; if (!keys.length) return braces[0] + '}' }
  if (level > ctx.depth) return array ? '[Array]' : `[${name === null ? 'Object: null prototype' : name}${tagged ? ' ' + tagged.trim() : ''}]`
  ctx.seen.push(v); ctx.currentDepth = level
  let output = body()
  if (ctx.sorted) keys.sort()
  for (const k of keys) output.push(formatProperty(ctx, v, level, k, false))
  ctx.seen.pop()
  if (ctx.circular.has(v)) { const ref = `<ref *${ctx.circular.get(v)}>`; base = base === '' ? '' : `${ref} ${base}`; if (base === '') braces[0] = `${ref} ${braces[0]}` }
  return reduce(ctx, output, base, braces, array, level, v)
}
function formatProperty (ctx, v, level, k, item) {
  const d = Object.getOwnPropertyDescriptor(v, k) || { value: v[k], enumerable: true }
  let s
  if (d.get) s = d.set ? '[Getter/Setter]' : '[Getter]'; else if (d.set) s = '[Setter]'; else { ctx.indentationLvl += 2; s = formatValue(ctx, d.value, level + 1); ctx.indentationLvl -= 2 }
  if (item) return s
  const key = typeof k === 'symbol' ? `[${k.toString()}]` : k === '__proto__' ? "['__proto__']" : ident.test(k) ? k : quote(k)
  return `${d.enumerable ? key : `[${key}]`}: ${s}`
}
function reduce (ctx, output, base, braces, array, level, v) {
  const entries = output.length
  if (array && entries > 6) output = group(ctx, output, v)
  if (ctx.currentDepth - level < ctx.compact && entries === output.length) {
    const start = output.length + ctx.indentationLvl + braces[0].length + base.length + 10
    let total = output.length + start
    for (const s of output) total += s.length
    if (total <= ctx.breakLength && !base.includes('\n')) { const joined = output.join(', '); if (!joined.includes('\n')) return `${base ? `${base} ` : ''}${braces[0]} ${joined} ${braces[1]}` }
  }
  const ind = '\n' + ' '.repeat(ctx.indentationLvl)
  return `${base ? `${base} ` : ''}${braces[0]}${ind}  ${output.join(`,${ind}  `)}${ind}${braces[1]}`
}
function group (ctx, output, value) {
  let total = 0, max = 0, n = output.length
  if (n > 100) n--
  const len = []
  for (let i = 0; i < n; i++) { len[i] = output[i].length; total += len[i] + 2; if (max < len[i]) max = len[i] }
  const actual = max + 2
  if (!(actual * 3 + ctx.indentationLvl < ctx.breakLength && (total / actual > 5 || max <= 6))) return output
  const biased = Math.max(actual - 3 - Math.sqrt(actual - total / output.length), 1)
  const columns = Math.min(Math.round(Math.sqrt(2.5 * biased * n) / biased), Math.floor((ctx.breakLength - ctx.indentationLvl) / actual), ctx.compact * 4, 15)
  if (columns <= 1) return output
  const widths = [], tmp = []
  for (let i = 0; i < columns; i++) { let w = 0; for (let j = i; j < n; j += columns) if (len[j] > w) w = len[j]; widths.push(w + 2) }
  let start = true
  for (let i = 0; i < output.length; i++) if (typeof value[i] !== 'number' && typeof value[i] !== 'bigint') { start = false; break }
  for (let i = 0; i < n; i += columns) {
    const end = Math.min(i + columns, n); let s = '', j = i
    for (; j < end - 1; j++) s += start ? `${output[j]}, `.padStart(widths[j - i]) : `${output[j]}, `.padEnd(widths[j - i])
    s += start ? output[j].padStart(widths[j - i] - 2) : output[j]
    tmp.push(s)
  }
  if (n < output.length) tmp.push(output[n])
  return tmp
}
function format (...a) {
  let s = '', i = 0
  if (typeof a[0] === 'string') {
    i = 1
    s = a[0].replace(/%[sdifjoOc%]/g, m => {
      if (m === '%%') return a.length > 1 ? '%' : m
      if (i >= a.length) return m
      const v = a[i++]
      switch (m) {
        case '%s': return typeof v === 'string' ? v : typeof v === 'object' && v !== null && !(v instanceof Error) ? inspect(v, { depth: 0 }) : typeof v === 'bigint' || Object.is(v, -0) ? formatPrimitive(v) : String(v)
        case '%d': return typeof v === 'bigint' ? v + 'n' : typeof v === 'symbol' ? 'NaN' : formatPrimitive(Number(v))
        case '%i': return typeof v === 'bigint' ? v + 'n' : formatPrimitive(parseInt(v))
        case '%f': return formatPrimitive(parseFloat(v))
        case '%j': return JSON.stringify(v)
        case '%o': return inspect(v, { depth: 4 })
        case '%O': return inspect(v)
      }
      return ''
    })
  }
  for (; i < a.length; i++) s += (i ? ' ' : '') + (typeof a[i] === 'string' ? a[i] : inspect(a[i]))
  return s
}
let indent = ''
const print = (w, a) => { let s = format(...a); if (indent) s = indent + s.replaceAll('\n', '\n' + indent); w(s + '\n') }
const counts = {}, timers0 = {}
const console = {
  log: (...a) => print(writeOut, a), info: (...a) => print(writeOut, a), debug: (...a) => print(writeOut, a), error: (...a) => print(writeErr, a), warn: (...a) => print(writeErr, a), trace: (...a) => print(writeErr, ['Trace:', ...a]),
  dir: (v, o) => print(writeOut, [inspect(v, o)]), assert: (ok, ...a) => { if (!ok) print(writeErr, a.length ? ['Assertion failed:', ...a] : ['Assertion failed']) },
  group: (...a) => { if (a.length) console.log(...a); indent += '  ' }, groupEnd: () => { indent = indent.slice(2) }, count: (l = 'default') => console.log(`${l}: ${counts[l] = (counts[l] || 0) + 1}`), countReset: (l = 'default') => { counts[l] = 0 },
  time: (l = 'default') => { timers0[l] = Date.now() }, timeEnd: (l = 'default') => { console.log(`${l}: ${Date.now() - timers0[l]}ms`) }, timeLog: (l = 'default', ...a) => console.log(`${l}: ${Date.now() - timers0[l]}ms`, ...a),
  table: rows => {
    if (typeof rows !== 'object' || rows === null) return console.log(rows)
    const list = Array.isArray(rows) ? rows.map((r, i) => [i, r]) : Object.entries(rows), cols = []; let values = false
    for (const [, r] of list) if (typeof r === 'object' && r !== null) { for (const k of Object.keys(r)) if (!cols.includes(k)) cols.push(k) } else values = true
    const head = ['(index)', ...cols, ...(values ? ['Values'] : [])]
    const cells = list.map(([i, r]) => [String(i), ...cols.map(c => typeof r === 'object' && r !== null && c in r ? inspect(r[c], { depth: 0 }) : ''), ...(values ? [typeof r === 'object' && r !== null ? '' : inspect(r)] : [])])
    const w = head.map((h, i) => Math.max(h.length, ...cells.map(c => c[i].length)) + 2)
    const center = (s, n) => ' ' + s.padEnd(n - 1)
    console.log(['┌' + w.map(n => '─'.repeat(n)).join('┬') + '┐', '│' + head.map((h, i) => center(h, w[i])).join('│') + '│', '├' + w.map(n => '─'.repeat(n)).join('┼') + '┤', ...cells.map(c => '│' + c.map((s, i) => center(s, w[i])).join('│') + '│'), '└' + w.map(n => '─'.repeat(n)).join('┴') + '┘'].join('\n'))
  }
}
// bytes
const utf8Encode = s => { const out = []; s = String(s); for (let i = 0; i < s.length; i++) { let c = s.codePointAt(i); if (c > 0xffff) i++; else if (c >= 0xd800 && c < 0xe000) c = 0xfffd; if (c < 0x80) out.push(c); else if (c < 0x800) out.push(c >> 6 | 192, c & 63 | 128); else if (c < 0x10000) out.push(c >> 12 | 224, c >> 6 & 63 | 128, c & 63 | 128); else out.push(c >> 18 | 240, c >> 12 & 63 | 128, c >> 6 & 63 | 128, c & 63 | 128) } return out }
const utf8Decode = b => { let s = ''; for (let i = 0; i < b.length;) { const c = b[i++]; if (c < 0x80) { s += String.fromCharCode(c); continue } let n = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : 0, v = n === 3 ? c & 7 : n === 2 ? c & 15 : c & 31, k = 0; if (!n) { s += '\ufffd'; continue } for (; k < n && i < b.length && (b[i] & 0xc0) === 0x80; k++) { if (k === 0 && (c === 0xe0 && b[i] < 0xa0 || c === 0xed && b[i] > 0x9f || c === 0xf0 && b[i] < 0x90 || c === 0xf4 && b[i] > 0x8f)) break; v = v << 6 | b[i++] & 63 } s += k === n ? String.fromCodePoint(v) : '\ufffd' } return s }
const latin1 = b => { let s = ''; for (let i = 0; i < b.length; i += 4096) s += String.fromCharCode(...b.subarray(i, i + 4096)); return s }
const b64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
let b64Pairs, hexPairs // of 12 bits, and of 8
const base64Encode = (b, url) => { if (!b64Pairs) { b64Pairs = []; for (const x of b64) for (const y of b64) b64Pairs.push(x + y) } let s = '', i = 0; for (const end = b.length - 2; i < end; i += 3) { const n = b[i] << 16 | b[i + 1] << 8 | b[i + 2]; s += b64Pairs[n >> 12] + b64Pairs[n & 4095] } if (i < b.length) { const n = b[i] << 16 | (b[i + 1] || 0) << 8; s += b64Pairs[n >> 12] + (i + 1 < b.length ? b64[n >> 6 & 63] : '=') + '=' } return url ? s.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '') : s }
const base64Decode = s => { const out = []; let n = 0, bits = 0; for (const c of s.replace(/-/g, '+').replace(/_/g, '/')) { const v = b64.indexOf(c); if (c === '=') break; if (v < 0) continue; n = n << 6 | v; bits += 6; if (bits >= 8) { bits -= 8; out.push(n >> bits & 255) } n &= 0xffff } return out }
class Buffer extends Uint8Array {
  static from (v, enc, len) {
    if (typeof v === 'string') {
      switch ((enc || 'utf8').toLowerCase()) {
        case 'hex': { const o = []; for (let i = 0; i + 1 < v.length; i += 2) { const n = parseInt(v.slice(i, i + 2), 16); if (isNaN(n)) break; o.push(n) } return new Buffer(o) }
        case 'base64': case 'base64url': return new Buffer(base64Decode(v))
        case 'latin1': case 'binary': case 'ascii': { const n = v.length, b = new Buffer(n); for (let i = 0; i < n; i++) b[i] = v.charCodeAt(i); return b }
        case 'utf16le': case 'ucs2': { const b = new Buffer(v.length * 2); for (let i = 0; i < v.length; i++) { b[2 * i] = v.charCodeAt(i) & 255; b[2 * i + 1] = v.charCodeAt(i) >> 8 } return b }
      }
      return new Buffer(utf8Encode(v))
    }
    if (v instanceof ArrayBuffer) return new Buffer(v, enc, len)
    if (v && v.type === 'Buffer' && Array.isArray(v.data)) return new Buffer(v.data)
    return new Buffer(Array.from(v))
  }
  static alloc (n, fill) { const b = new Buffer(n); if (fill !== undefined) b.fill(fill); return b }
  static allocUnsafe (n) { return new Buffer(n) }
  static isBuffer (b) { return b instanceof Buffer }
  static isEncoding (e) { return ['utf8', 'utf-8', 'hex', 'base64', 'base64url', 'latin1', 'binary', 'ascii', 'utf16le', 'ucs2'].includes(String(e).toLowerCase()) }
  static byteLength (s, enc) { return typeof s === 'string' ? Buffer.from(s, enc).length : s.byteLength }
  static concat (list, total) { if (total === undefined) total = list.reduce((n, b) => n + b.length, 0); const r = new Buffer(total); let at = 0; for (const b of list) { r.set(b.subarray(0, total - at), at); at += b.length; if (at >= total) break } return r }
  static compare (a, b) { for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1; return Math.sign(a.length - b.length) }
  toString (enc, from = 0, to = this.length) {
    const b = this.subarray(from, to)
    switch ((enc || 'utf8').toLowerCase()) {
      case 'hex': { if (!hexPairs) { hexPairs = []; for (let i = 0; i < 256; i++) hexPairs.push((i + 256).toString(16).slice(1)) } let s = ''; for (let i = 0; i < b.length; i++) s += hexPairs[b[i]]; return s }
      case 'base64': return base64Encode(b)
      case 'base64url': return base64Encode(b, true)
      case 'latin1': case 'binary': return latin1(b)
      case 'ascii': return latin1(b.map(x => x & 127))
      case 'utf16le': case 'ucs2': { let s = ''; for (let i = 0; i + 1 < b.length; i += 2) s += String.fromCharCode(b[i] | b[i + 1] << 8); return s }
    }
    return utf8Decode(b)
  }
  toJSON () { return { type: 'Buffer', data: Array.from(this) } }
  equals (b) { return Buffer.compare(this, b) === 0 }
  compare (b) { return Buffer.compare(this, b) }
  slice (a, b) { return this.subarray(a, b) }
  write (s, at = 0, n, enc) { if (typeof at === 'string') { enc = at; at = 0 } const b = Buffer.from(s, typeof n === 'string' ? n : enc).subarray(0, this.length - at); this.set(b, at); return b.length }
  copy (to, at = 0, from = 0, end = this.length) { const b = this.subarray(from, Math.min(end, from + to.length - at)); to.set(b, at); return b.length }
  fill (v, a, b) { if (typeof v === 'string') { const f = Buffer.from(v); for (let i = a || 0; i < (b === undefined ? this.length : b) && f.length; i++) this[i] = f[(i - (a || 0)) % f.length]; return this } return super.fill(v, a, b) }
  indexOf (v, at = 0) { if (typeof v === 'number') return super.indexOf(v, at); const f = typeof v === 'string' ? Buffer.from(v) : v; outer: for (let i = at; i + f.length <= this.length; i++) { for (let k = 0; k < f.length; k++) if (this[i + k] !== f[k]) continue outer; return i } return -1 }
  includes (v, at) { return this.indexOf(v, at) >= 0 }
}
for (const [n, m, size] of [['UInt8', 'Uint8', 1], ['Int8', 'Int8', 1], ['UInt16', 'Uint16', 2], ['Int16', 'Int16', 2], ['UInt32', 'Uint32', 4], ['Int32', 'Int32', 4], ['Float', 'Float32', 4], ['Double', 'Float64', 8], ['BigInt64', 'BigInt64', 8], ['BigUInt64', 'BigUint64', 8]]) for (const e of size > 1 ? ['LE', 'BE'] : ['']) {
  Buffer.prototype['read' + n + e] = function (at = 0) { if (at < 0 || at + size > this.length) throw new RangeError('The value of "offset" is out of range.'); return new DataView(this.buffer, this.byteOffset)['get' + m](at, e === 'LE') }
  Buffer.prototype['write' + n + e] = function (v, at = 0) { new DataView(this.buffer, this.byteOffset)['set' + m](at, v, e === 'LE'); return at + size }
}
class TextEncoder { get encoding () { return 'utf-8' } encode (s = '') { return new Uint8Array(utf8Encode(s)) } }
class TextDecoder { get encoding () { return 'utf-8' } decode (b) { return b === undefined ? '' : utf8Decode(b instanceof ArrayBuffer ? new Uint8Array(b) : new Uint8Array(b.buffer, b.byteOffset, b.byteLength)).replace(/^\ufeff/, '') } }
// URL
class URLSearchParams {
  #l = []
  constructor (v = '') { if (typeof v === 'string') { for (const p of v.replace(/^\?/, '').split('&')) if (p) { const i = p.indexOf('='), d = s => decodeURIComponent(s.replace(/\+/g, ' ')); this.#l.push(i < 0 ? [d(p), ''] : [d(p.slice(0, i)), d(p.slice(i + 1))]) } } else for (const [k, x] of v[Symbol.iterator] ? v : Object.entries(v)) this.#l.push([String(k), String(x)]) }
  get (k) { const e = this.#l.find(e => e[0] === k); return e ? e[1] : null } getAll (k) { return this.#l.filter(e => e[0] === k).map(e => e[1]) } has (k) { return this.#l.some(e => e[0] === k) }
  append (k, v) { this.#l.push([String(k), String(v)]) } delete (k) { this.#l = this.#l.filter(e => e[0] !== k) } set (k, v) { const e = this.#l.find(e => e[0] === k); if (e) { e[1] = String(v); this.#l = this.#l.filter(x => x === e || x[0] !== k) } else this.append(k, v) }
  sort () { this.#l.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) } forEach (f) { for (const [k, v] of this.#l) f(v, k, this) } keys () { return this.#l.map(e => e[0])[Symbol.iterator]() } values () { return this.#l.map(e => e[1])[Symbol.iterator]() } entries () { return this.#l.map(e => [...e])[Symbol.iterator]() } [Symbol.iterator] () { return this.entries() } get size () { return this.#l.length }
  toString () { const e = s => encodeURIComponent(s).replace(/%20/g, '+').replace(/[!'()~]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase()); return this.#l.map(([k, v]) => `${e(k)}=${e(v)}`).join('&') }
  [inspect.custom] (d, o) { return `URLSearchParams {${this.#l.length ? ` ${this.#l.map(([k, v]) => `${quote(k)} => ${quote(v)}`).join(', ')} ` : ''}}` }
}
const ports = { 'http:': '80', 'https:': '443', 'ftp:': '21', 'ws:': '80', 'wss:': '443' }
class URL {
  constructor (u, base) {
    u = String(u).trim()
    let m = /^([a-zA-Z][a-zA-Z0-9+.-]*:)(?:\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?(\[[^\]]*\]|[^:/?#]*)(?::(\d*))?)?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(u)
    if (!m && base !== undefined) { const b = new URL(base); let p = u; if (p.startsWith('//')) p = b.protocol + p; else if (p.startsWith('/')) p = b.origin + p; else if (p.startsWith('?')) p = b.origin + b.pathname + p; else if (p.startsWith('#')) p = b.origin + b.pathname + b.search + p; else p = (b.origin === 'null' ? b.protocol + '//' + b.host : b.origin) + b.pathname.replace(/[^/]*$/, '') + p; return new URL(p) }
    if (!m || m[1].toLowerCase() in ports && !m[4]) throw fail('ERR_INVALID_URL', 'Invalid URL', { input: u })
    this.protocol = m[1].toLowerCase(); this.username = m[2] || ''; this.password = m[3] || ''; this.hostname = (m[4] || '').toLowerCase(); this.port = m[5] && m[5] !== ports[this.protocol] ? String(+m[5]) : ''
    let p = m[6] || ''
    if (u.slice(m[1].length).startsWith('//')) { const out = []; const parts = p.split('/').slice(1); parts.forEach((s, i) => { if (s === '..') { out.pop(); if (i === parts.length - 1) out.push('') } else if (s === '.') { if (i === parts.length - 1) out.push('') } else out.push(s) }); p = '/' + out.join('/') }
    this.pathname = encodeURI(decodeURI(p.replace(/%(?![0-9a-fA-F]{2})/g, '%25')).replace(/%/g, '%25')).replace(/%25([0-9A-F]{2})/g, '%$1').replace(/#/g, '%23').replace(/\?/g, '%3F')
    this.hash = m[8] && m[8] !== '#' ? m[8] : ''
    this.searchParams = new URLSearchParams(m[7] || ''); this._s = m[7] && m[7] !== '?' ? m[7].replace(/ /g, '%20') : ''; this._p = this.searchParams.toString()
    Object.defineProperty(this, '_s', { enumerable: false }); Object.defineProperty(this, '_p', { enumerable: false })
  }
  get search () { const s = this.searchParams.toString(); return s === this._p ? this._s : s ? '?' + s : '' } set search (v) { this.searchParams = new URLSearchParams(v); this._s = v && v !== '?' ? v[0] === '?' ? v : '?' + v : ''; this._p = this.searchParams.toString() }
  get host () { return this.hostname + (this.port ? ':' + this.port : '') } get origin () { return this.protocol in ports ? this.protocol + '//' + this.host : 'null' }
  get href () { const a = this.username ? this.username + (this.password ? ':' + this.password : '') + '@' : ''; return this.protocol + (this.hostname || this.protocol === 'file:' ? '//' + a + this.host : '') + this.pathname + this.search + this.hash }
  toString () { return this.href } toJSON () { return this.href }
  static canParse (u, b) { try { return !!new URL(u, b) } catch { return false } }
  [inspect.custom] (d, o, i) { return 'URL ' + i({ href: this.href, origin: this.origin, protocol: this.protocol, username: this.username, password: this.password, host: this.host, hostname: this.hostname, port: this.port, pathname: this.pathname, search: this.search, searchParams: this.searchParams, hash: this.hash }) }
}
// events and timers
class EventEmitter {
  constructor () { Object.defineProperty(this, '_events', { value: {}, writable: true, enumerable: false }) }
  _l (e) { if (!this._events) Object.defineProperty(this, '_events', { value: {}, writable: true, enumerable: false }); return this._events[e] ||= [] }
  on (e, f) { this._l(e).push(f); return this } addListener (e, f) { return this.on(e, f) } prependListener (e, f) { this._l(e).unshift(f); return this }
  once (e, f) { const g = (...a) => { this.off(e, g); f.apply(this, a) }; g.listener = f; return this.on(e, g) }
  off (e, f) { const l = this._l(e), i = l.findIndex(g => g === f || g.listener === f); if (i >= 0) this._events[e] = [...l.slice(0, i), ...l.slice(i + 1)]; return this } removeListener (e, f) { return this.off(e, f) } removeAllListeners (e) { if (e === undefined) this._events = {}; else this._events[e] = []; return this }
  emit (e, ...a) { const l = this._l(e); if (!l.length && e === 'error') throw a[0] instanceof Error ? a[0] : new Error('Unhandled error. (' + inspect(a[0]) + ')'); for (const f of [...l]) f.apply(this, a); return l.length > 0 }
  listeners (e) { return this._l(e).map(f => f.listener || f) } listenerCount (e) { return this._l(e).length } eventNames () { return Object.keys(this._events || {}).filter(e => this._events[e].length) } setMaxListeners () { return this }
}
EventEmitter.EventEmitter = EventEmitter; EventEmitter.once = (em, e) => new Promise((resolve, reject) => { em.once(e, (...a) => resolve(a)); if (e !== 'error') em.once('error', reject) })
let timers = [], timerId = 1, ticks = []
class Timeout { constructor (id) { this.id = id } ref () { return this } unref () { const t = timers.find(t => t.id === this.id); if (t) t.unref = true; return this } hasRef () { return true } [Symbol.toPrimitive] () { return this.id } }
const addTimer = (f, ms, a, every, immediate) => { if (typeof f !== 'function') throw fail('ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function. Received ' + inspect(f)); const id = timerId++; if (ms > 2147483647) { flush(); call('err', `(node:${call('pid')}) TimeoutOverflowWarning: ${ms} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.\n`) } ms = ms >= 1 && ms <= 2147483647 ? +ms : 1; timers.push({ id, at: immediate ? -1 : Date.now() + ms, f, a, every: every ? ms : 0, seq: id }); return new Timeout(id) }
const clear = t => { if (t != null) { const id = +t; timers = timers.filter(x => x.id !== id) } }
const G = globalThis
const setTimeout = (f, ms, ...a) => addTimer(f, ms, a), setInterval = (f, ms, ...a) => addTimer(f, ms, a, true), setImmediate = (f, ...a) => addTimer(f, 0, a, false, true)
// process
class ExitSignal { constructor (code) { this.code = code } }
const process = new EventEmitter()
const exitNow = code => { if (code === undefined) code = process.exitCode || 0; process.exitCode = code; if (!process._exiting) { process._exiting = true; process.emit('exit', code) } flush(); call('exit', Number(process.exitCode) || 0) }
class Writable extends EventEmitter { constructor (w, fd) { super(); this._w = w; this.fd = fd; this.writable = true; this.isTTY = undefined; this.columns = undefined } write (t, e, f) { this._w(typeof t === 'string' ? t : utf8Decode(t)); if (typeof e === 'function') e(); else if (f) f(); return true } end (t, f) { if (t !== undefined && typeof t !== 'function') this.write(t); queueMicrotask(() => { this.emit('finish'); this.emit('close'); if (typeof f === 'function') f() }) } cork () {} uncork () {} getColorDepth () { return 1 } hasColors () { return false } }
class Readable extends EventEmitter {
  constructor (read) { super(); this._read = read; this.isTTY = undefined; this.readable = true }
  _start () { if (this._started) return; this._started = true; setImmediate(() => { let b; try { b = this._read() } catch (e) { this.emit('error', e); return } if (b.length) this.emit('data', this._enc ? b.toString(this._enc) : b); this.emit('end'); this.emit('close') }) }
  on (e, f) { super.on(e, f); if (e === 'data' || e === 'end' || e === 'readable') this._start(); return this }
  setEncoding (e) { this._enc = e; return this } resume () { this._start(); return this } pause () { return this } read () { return null } unref () { return this } ref () { return this } destroy () { return this }
  pipe (w) { this.on('data', d => w.write(d)); this.on('end', () => { if (w !== process.stdout && w !== process.stderr) w.end() }); return w }
  async * [Symbol.asyncIterator] () { const b = this._read(); if (b.length) yield this._enc ? b.toString(this._enc) : b }
}
let stdinText; const readStdin = () => { if (stdinText === undefined) { flush(); stdinText = Buffer.from(call('stdin'), 'latin1') } const b = stdinText; stdinText = Buffer.alloc(0); return b }
let cwd = cwd0
Object.assign(process, { argv, argv0: 'node', execArgv: [], execPath: '/usr/bin/node', env: new Proxy(env, { set (t, k, v) { t[k] = String(v); return true } }), platform: 'linux', arch: 'x64', pid: call('pid'), ppid: 1, title: 'node', version: 'v20.20.2', versions: { node: '20.20.2', v8: '11.3.244.8-node.33', modules: '115' }, release: { name: 'node' }, exitCode: undefined, config: {}, features: {},
  exit: exitNow, reallyExit: exitNow, abort: () => exitNow(134), kill: () => { throw fail('EPERM', 'kill EPERM: use child_process with the command kill') }, cwd: () => cwd, chdir: d => { cwd = call('chdir', d) }, uptime: () => (Date.now() - started) / 1000, umask: () => 0o22, getuid: () => 0, getgid: () => 0, geteuid: () => 0, getegid: () => 0, emitWarning: w => writeErr(`(node:${process.pid}) ${w instanceof Error ? w : 'Warning: ' + w}\n`),
  nextTick: (f, ...a) => { ticks.push([f, a]) }, hrtime: Object.assign(p => { const t = performance.now(); let s = Math.floor(t / 1000), n = Math.floor(t % 1000 * 1e6); if (p) { s -= p[0]; n -= p[1]; if (n < 0) { s--; n += 1e9 } } return [s, n] }, { bigint: () => BigInt(Math.floor(performance.now() * 1e6)) }), memoryUsage: Object.assign(() => ({ rss: 4e7, heapTotal: 2e7, heapUsed: 1e7, external: 1e6, arrayBuffers: 1e4 }), { rss: () => 4e7 }), cpuUsage: () => ({ user: 1000, system: 0 }), binding: () => { throw new Error('process.binding is not supported') } })
process.stdout = new Writable(writeOut, 1); process.stderr = new Writable(writeErr, 2); process.stdin = new Readable(readStdin); process.stdin.fd = 0
const runTicks = () => { while (ticks.length) { const [f, a] = ticks.shift(); f(...a) } }
const started = Date.now(), performance = { now: () => call('now') , timeOrigin: started, mark () {}, measure () {} }
// modules
const path = (() => {
  const normalize = p => { if (p === '') return '.'; const abs = p[0] === '/', tail = p.endsWith('/'), out = []; for (const s of p.split('/')) { if (s === '' || s === '.') continue; if (s === '..') { if (out.length && out[out.length - 1] !== '..') out.pop(); else if (!abs) out.push('..') } else out.push(s) } let r = out.join('/'); if (!r && !abs) r = '.'; if (r && tail && r !== '.') r += '/'; else if (tail && r === '.') r = './'; return abs ? '/' + r.replace(/^\.?\/?$/, '') : r }
  const check = p => { if (typeof p !== 'string') throw Object.assign(new TypeError(`The "path" argument must be of type string. Received ${p === null ? 'null' : typeof p === 'undefined' ? 'undefined' : `type ${typeof p} (${inspect(p)})`}`), { code: 'ERR_INVALID_ARG_TYPE' }); return p }
  const resolve = (...a) => { let r = ''; for (let i = a.length - 1; i >= 0 && r[0] !== '/'; i--) if (check(a[i])) r = a[i] + (r ? '/' + r : ''); if (r[0] !== '/') r = cwd + (r ? '/' + r : ''); r = normalize(r); return r.length > 1 ? r.replace(/\/$/, '') : r }
  const basename = (p, ext) => { p = check(p).replace(/\/+$/, ''); p = p.slice(p.lastIndexOf('/') + 1); return ext && p.endsWith(ext) && p !== ext ? p.slice(0, -ext.length) : p }
  const dirname = p => { p = check(p).replace(/(.)\/+$/, '$1'); const i = p.lastIndexOf('/'); return i < 0 ? '.' : i === 0 ? '/' : p.slice(0, i).replace(/(.)\/+$/, '$1') }
  const extname = p => { const b = basename(p), i = b.lastIndexOf('.'); return i <= 0 ? '' : b.slice(i) }
  const P = { sep: '/', delimiter: ':', normalize: p => normalize(check(p)), resolve, basename, dirname, extname, isAbsolute: p => check(p)[0] === '/', join: (...a) => normalize(a.filter(x => check(x) !== '').join('/')),
    relative: (a, b) => { a = resolve(a).split('/').filter(Boolean); b = resolve(b).split('/').filter(Boolean); let i = 0; while (i < a.length && i < b.length && a[i] === b[i]) i++; return [...a.slice(i).map(() => '..'), ...b.slice(i)].join('/') },
    parse: p => { const base = basename(p), ext = extname(p), root = p[0] === '/' ? '/' : ''; let dir = dirname(p); if (dir === '.' && !p.startsWith('./')) dir = ''; return { root, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base } }, format: o => (o.dir ? (o.dir === '/' ? '/' : o.dir + '/') : o.root || '') + (o.base || (o.name || '') + (o.ext ? (o.ext[0] === '.' ? '' : '.') + o.ext : '')), toNamespacedPath: p => p }
  P.posix = P; return P
})()
const toPath = p => { if (p instanceof URL) return decodeURIComponent(p.pathname); if (p instanceof Uint8Array) return utf8Decode(p); if (typeof p !== 'string') path.isAbsolute(p); return p }
const encodingOf = o => typeof o === 'string' ? o : o && o.encoding
class Stats { constructor (s) { const [mode, size, mtime, ino, kind, uid, gid, nlink] = s.split(','); this.dev = 1; this.mode = +mode; this.nlink = +nlink; this.uid = +uid; this.gid = +gid; this.rdev = 0; this.blksize = 4096; this.ino = +ino; this.size = +size; this.blocks = Math.ceil(size / 512); this.atimeMs = this.mtimeMs = this.ctimeMs = this.birthtimeMs = +mtime; for (const k of ['atime', 'mtime', 'ctime', 'birthtime']) this[k] = new Date(+mtime); Object.defineProperty(this, '_k', { value: kind, enumerable: false }) } isFile () { return this._k === 'f' } isDirectory () { return this._k === 'd' } isSymbolicLink () { return this._k === 'l' } isFIFO () { return this._k === 'p' } isSocket () { return false } isBlockDevice () { return false } isCharacterDevice () { return this._k === 'c' } }
class Dirent { constructor (name, kind, dir) { this.name = name; this.parentPath = this.path = dir; Object.defineProperty(this, '_k', { value: kind, enumerable: false }) } isFile () { return this._k === 'f' } isDirectory () { return this._k === 'd' } isSymbolicLink () { return this._k === 'l' } isFIFO () { return this._k === 'p' } isSocket () { return false } isBlockDevice () { return false } isCharacterDevice () { return this._k === 'c' } }
const bytesOf = (d, enc) => typeof d === 'string' ? latin1(Buffer.from(d, enc)) : d instanceof Uint8Array ? latin1(d) : ArrayBuffer.isView(d) ? latin1(new Uint8Array(d.buffer, d.byteOffset, d.byteLength)) : (() => { throw Object.assign(new TypeError('The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ' + (d === undefined ? 'undefined' : inspect(d))), { code: 'ERR_INVALID_ARG_TYPE' }) })()
const fds = new Map()
const sync = {
  readFile: (p, o) => { if (p === 0 || p === '/dev/stdin') { const b = readStdin(); return encodingOf(o) ? b.toString(encodingOf(o)) : b } if (typeof p === 'number') { const f = fds.get(p); p = f.path } flush(); const e = encodingOf(o); if (e && /^utf-?8$/i.test(e)) return call('readText', toPath(p)); const b = Buffer.from(call('read', toPath(p)), 'latin1'); return e ? b.toString(e) : b },
  writeFile: (p, d, o) => { if (p === 1) return writeOut(String(d)); if (p === 2) return writeErr(String(d)); const flag = o && o.flag || 'w'; if (typeof d === 'string' && !encodingOf(o)) call('writeText', toPath(p), d, flag, o && o.mode); else call('write', toPath(p), bytesOf(d, encodingOf(o)), flag, o && o.mode) },
  appendFile: (p, d, o) => sync.writeFile(p, d, { ...(typeof o === 'string' ? { encoding: o } : o), flag: 'a' }),
  stat: (p, o) => { try { return new Stats(call('stat', toPath(p), true)) } catch (e) { if (o && o.throwIfNoEntry === false && e.code === 'ENOENT') return undefined; throw e } }, lstat: (p, o) => { try { return new Stats(call('stat', toPath(p), false)) } catch (e) { if (o && o.throwIfNoEntry === false && e.code === 'ENOENT') return undefined; throw e } },
  readdir: (p, o) => { const dir = toPath(p), list = call('readdir', dir), out = []; for (const e of list ? list.split('\0') : []) { const kind = e[0], name = e.slice(1); out.push(o && o.withFileTypes ? new Dirent(name, kind, dir) : name); if (o && o.recursive && kind === 'd') for (const s of sync.readdir(dir + '/' + name, o)) out.push(o.withFileTypes ? s : name + '/' + s) } return out },
  mkdir: (p, o) => { call('mkdir', toPath(p), !!(o && o.recursive)) }, rm: (p, o) => { call('rm', toPath(p), !!(o && o.recursive), !!(o && o.force)) }, rmdir: (p, o) => o && o.recursive ? sync.rm(p, o) : call('rmdir', toPath(p)), unlink: p => { call('unlink', toPath(p)) }, rename: (a, b) => { call('rename', toPath(a), toPath(b)) }, copyFile: (a, b) => { call('copy', toPath(a), toPath(b)) },
  cp: (a, b, o) => { if (sync.stat(a).isDirectory()) { if (!(o && o.recursive)) throw fail('ERR_FS_EISDIR', `Recursive option not enabled, cannot copy a directory: ${a}`); sync.mkdir(b, { recursive: true }); for (const n of sync.readdir(a)) sync.cp(path.join(a, n), path.join(b, n), o) } else { sync.mkdir(path.dirname(path.resolve(b)), { recursive: true }); sync.copyFile(a, b) } },
  access: p => { call('stat', toPath(p), true) }, chmod: (p, m) => { call('chmod', toPath(p), typeof m === 'string' ? parseInt(m, 8) : m) }, symlink: (t, p) => { call('symlink', toPath(t), toPath(p)) }, link: (a, b) => { call('link', toPath(a), toPath(b)) }, readlink: p => call('readlink', toPath(p)), realpath: p => call('realpath', toPath(p)), truncate: (p, n) => { call('truncate', toPath(p), n || 0) }, utimes: (p, a, m) => { call('utimes', toPath(p), +(m instanceof Date ? m : m * 1000)) },
  mkdtemp: p => { const d = p + Array.from(randomBytes(6), b => 'abcdefghijklmnopqrstuvwxyzABCDEF'[b & 31]).join(''); sync.mkdir(d); return d },
  open: (p, flag = 'r') => { p = path.resolve(toPath(p)); if (flag[0] === 'r') call('stat', p, true); else if (flag[0] === 'w') sync.writeFile(p, ''); else sync.writeFile(p, '', { flag: 'a' }); let n = 3; while (fds.has(n)) n++; fds.set(n, { path: p, at: 0, append: flag[0] === 'a' }); return n },
  close: n => { if (!fds.delete(n)) throw fail('EBADF', 'EBADF: bad file descriptor, close') },
  write: (n, d, ...rest) => { const b = typeof d === 'string' ? Buffer.from(d) : typeof rest[0] === 'number' ? d.subarray(rest[0], rest[1] === undefined ? undefined : rest[0] + rest[1]) : d; if (n === 1) writeOut(utf8Decode(b)); else if (n === 2) writeErr(utf8Decode(b)); else sync.appendFile(fds.get(n).path, b); return b.length },
  read: (n, b, off = 0, len = b.length - off, pos = null) => { const f = fds.get(n), all = n === 0 ? readStdin() : sync.readFile(f.path), at = pos === null ? f ? f.at : 0 : pos, part = all.subarray(at, at + len); b.set(part, off); if (f && pos === null) f.at += part.length; return part.length },
  fstat: n => sync.stat(fds.get(n).path), fsync: () => {}
}
const fs = { constants: { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1 }, Stats, Dirent, existsSync: p => { try { call('stat', toPath(p), true); return true } catch { return false } }, exists: (p, f) => setImmediate(f, fs.existsSync(p)), promises: { constants: {} } }
for (const [k, f] of Object.entries(sync)) {
  Object.defineProperty(f, 'name', { value: k + 'Sync' })
  fs[k + 'Sync'] = f
  fs[k] = (...a) => { const cb = a.pop(); if (typeof cb !== 'function') throw Object.assign(new TypeError('The "cb" argument must be of type function. Received ' + inspect(cb)), { code: 'ERR_INVALID_ARG_TYPE' }); let r, err = null; try { r = f(...a) } catch (e) { err = e } setImmediate(() => err ? cb(err) : cb(null, r)) }
  fs.promises[k] = async (...a) => { await null; return f(...a) }
}
fs.promises.open = async (p, flag) => { const n = sync.open(p, flag); return { fd: n, readFile: async o => sync.readFile(fds.get(n).path, o), writeFile: async d => sync.writeFile(fds.get(n).path, d), appendFile: async d => sync.appendFile(fds.get(n).path, d), write: async d => ({ bytesWritten: sync.write(n, d) }), stat: async () => sync.fstat(n), close: async () => sync.close(n) } }
fs.createReadStream = (p, o) => { const r = new Readable(() => sync.readFile(p)); if (encodingOf(o)) r.setEncoding(encodingOf(o)); r.path = p; return r }
fs.createWriteStream = (p, o) => { sync.writeFile(p, '', { flag: o && o.flags || 'w' }); const w = new Writable(() => {}); w.path = p; w.write = (d, e, f) => { sync.appendFile(p, d); if (typeof e === 'function') e(); else if (f) f(); return true }; return w }
fs.watch = fs.watchFile = () => { throw fail('ENOSYS', 'fs.watch is not supported: run the command again') }
const randomBytes = n => Buffer.from(call('random', n), 'latin1')
const hashOf = (alg, key) => { const parts = []; const h = { update (d, e) { parts.push(typeof d === 'string' ? Buffer.from(d, e) : Buffer.from(d)); return h }, digest (e) { const b = Buffer.from(call('hash', alg, key === undefined ? null : bytesOf(key), latin1(Buffer.concat(parts))), 'latin1'); return e ? b.toString(e) : b }, copy () { const c = hashOf(alg, key); for (const p of parts) c.update(p); return c } }; call('hash', alg, null, ''); return h }
const uuid = () => { const b = randomBytes(16); b[6] = b[6] & 15 | 64; b[8] = b[8] & 63 | 128; return b.toString('hex').replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5') }
const crypto = { randomBytes, randomUUID: uuid, createHash: a => hashOf(a), createHmac: (a, k) => hashOf(a, k), getHashes: () => ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'], randomInt: (a, b) => { if (b === undefined) { b = a; a = 0 } return a + Math.floor(randomBytes(6).reduce((n, x) => n * 256 + x, 0) / 2 ** 48 * (b - a)) }, getRandomValues: b => { b.set(randomBytes(b.length)); return b }, timingSafeEqual: (a, b) => Buffer.compare(a, b) === 0, hash: (a, d, e = 'hex') => hashOf(a).update(d).digest(e) }
const isDeepEqual = (a, b, strict, seen = []) => {
  if (strict ? Object.is(a, b) : a == b || a !== a && b !== b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  if (seen.some(([x, y]) => x === a && y === b)) return true
  seen = [...seen, [a, b]]
  if (a instanceof Date) return b instanceof Date && +a === +b
  if (a instanceof RegExp) return String(a) === String(b)
  if (a instanceof Error && (a.message !== b.message || a.name !== b.name)) return false
  if (a instanceof Map) return b instanceof Map && a.size === b.size && [...a].every(([k, v]) => b.has(k) && isDeepEqual(v, b.get(k), strict, seen))
  if (a instanceof Set) return b instanceof Set && a.size === b.size && [...a].every(v => b.has(v) || [...b].some(w => isDeepEqual(v, w, strict, seen)))
  const ka = keysOf(a), kb = keysOf(b)
  return ka.length === kb.length && ka.every(k => Object.prototype.hasOwnProperty.call(b, k) && isDeepEqual(a[k], b[k], strict, seen))
}
class AssertionError extends Error { constructor (o) { super(o.message); this.name = 'AssertionError'; this.code = 'ERR_ASSERTION'; this.generatedMessage = !o.userMessage; this.actual = o.actual; this.expected = o.expected; this.operator = o.operator } }
const assertFail = (m, text, actual, expected, operator) => { if (m instanceof Error) throw m; throw new AssertionError({ message: m === undefined ? text : m, userMessage: m !== undefined, actual, expected, operator }) }
const assert = (v, m) => { if (!v) assertFail(m, arguments.length ? 'The expression evaluated to a falsy value' : 'No value argument passed to `assert.ok()`', v, true, '==') }
const matches = (e, want) => { if (want === undefined) return true; if (want instanceof RegExp) return want.test(String(e)); if (typeof want === 'function') { if (want.prototype !== undefined && e instanceof want) return true; if (Error.isPrototypeOf(want)) return false; return want.call({}, e) === true } return Object.entries(want).every(([k, v]) => v instanceof RegExp && typeof e[k] === 'string' ? v.test(e[k]) : isDeepEqual(e[k], v, true)) }
Object.assign(assert, { ok: assert, AssertionError, fail: m => assertFail(m, 'Failed', undefined, undefined, 'fail'), equal: (a, b, m) => { if (!(a == b || a !== a && b !== b)) assertFail(m, `${inspect(a)} == ${inspect(b)}`, a, b, '==') }, notEqual: (a, b, m) => { if (a == b) assertFail(m, `${inspect(a)} != ${inspect(b)}`, a, b, '!=') },
  strictEqual: (a, b, m) => { if (!Object.is(a, b)) assertFail(m, `Expected values to be strictly equal:\n\n${inspect(a)} !== ${inspect(b)}\n`, a, b, 'strictEqual') }, notStrictEqual: (a, b, m) => { if (Object.is(a, b)) assertFail(m, `Expected "actual" to be strictly unequal to: ${inspect(b)}`, a, b, 'notStrictEqual') },
  deepEqual: (a, b, m) => { if (!isDeepEqual(a, b, false)) assertFail(m, `Expected values to be loosely deep-equal:\n\n${inspect(a)}\n\nshould loosely deep-equal\n\n${inspect(b)}`, a, b, 'deepEqual') }, deepStrictEqual: (a, b, m) => { if (!isDeepEqual(a, b, true)) assertFail(m, `Expected values to be strictly deep-equal:\n${inspect(a)}\n\nshould equal\n\n${inspect(b)}`, a, b, 'deepStrictEqual') },
  notDeepEqual: (a, b, m) => { if (isDeepEqual(a, b, false)) assertFail(m, 'Expected "actual" not to be loosely deep-equal to: ' + inspect(b), a, b, 'notDeepEqual') }, notDeepStrictEqual: (a, b, m) => { if (isDeepEqual(a, b, true)) assertFail(m, 'Expected "actual" not to be strictly deep-equal to: ' + inspect(b), a, b, 'notDeepStrictEqual') },
  throws: (f, want, m) => { let e, thrown = false; try { f() } catch (x) { e = x; thrown = true } if (!thrown) assertFail(typeof want === 'string' ? want : m, 'Missing expected exception.', undefined, want, 'throws'); if (typeof want !== 'string' && !matches(e, want)) throw e }, doesNotThrow: f => f(), rejects: async (p, want, m) => { let thrown = false, e; try { await (typeof p === 'function' ? p() : p) } catch (x) { thrown = true; e = x } if (!thrown) assertFail(m, 'Missing expected rejection.', undefined, want, 'rejects'); if (!matches(e, want)) throw e }, doesNotReject: async p => { await (typeof p === 'function' ? p() : p) },
  match: (s, r, m) => { if (!r.test(s)) assertFail(m, `The input did not match the regular expression ${r}. Input:\n\n${inspect(s)}\n`, s, r, 'match') }, doesNotMatch: (s, r, m) => { if (r.test(s)) assertFail(m, `The input was expected to not match the regular expression ${r}. Input:\n\n${inspect(s)}\n`, s, r, 'doesNotMatch') }, ifError: e => { if (e != null) throw e } })
assert.strict = assert
const promisify = f => { if (f[promisify.custom]) return f[promisify.custom]; return (...a) => new Promise((resolve, reject) => f(...a, (e, ...r) => e ? reject(e) : resolve(r[0]))) }
promisify.custom = Symbol.for('nodejs.util.promisify.custom')
const util = { inspect, format, promisify, callbackify: f => (...a) => { const cb = a.pop(); f(...a).then(r => cb(null, r), cb) }, isDeepStrictEqual: (a, b) => isDeepEqual(a, b, true), inherits: (c, s) => { Object.setPrototypeOf(c.prototype, s.prototype); c.super_ = s }, deprecate: f => f, TextEncoder, TextDecoder, types: { isPromise: v => v instanceof Promise, isDate: v => v instanceof Date, isRegExp: v => v instanceof RegExp, isMap: v => v instanceof Map, isSet: v => v instanceof Set, isNativeError: v => v instanceof Error, isTypedArray: v => ArrayBuffer.isView(v) && !(v instanceof DataView), isUint8Array: v => v instanceof Uint8Array }, isArray: Array.isArray, debuglog: () => () => {}, stripVTControlCharacters: s => s.replace(/\x1b\[[0-9;]*[A-Za-z]/g, ''), styleText: (f, t) => t,
  parseArgs: ({ args = process.argv.slice(2), options = {}, allowPositionals = false, strict = true } = {}) => { const values = {}, positionals = []; const set = (k, v) => { if (options[k] && options[k].multiple) (values[k] ||= []).push(v); else values[k] = v }; for (const [k, o] of Object.entries(options)) if ('default' in o) values[k] = o.default; for (let i = 0; i < args.length; i++) { let a = args[i]; if (a === '--') { positionals.push(...args.slice(i + 1)); break } let m; if (m = /^--([^=]+)(?:=(.*))?$/s.exec(a)) { const o = options[m[1]]; if (!o && strict) throw Object.assign(new TypeError(`Unknown option '--${m[1]}'`), { code: 'ERR_PARSE_ARGS_UNKNOWN_OPTION' }); if (o && o.type === 'string') set(m[1], m[2] !== undefined ? m[2] : args[++i]); else set(m[1], m[2] !== undefined ? m[2] : true) } else if (a[0] === '-' && a.length > 1) { for (let j = 1; j < a.length; j++) { const e = Object.entries(options).find(([, o]) => o.short === a[j]); if (!e) { if (strict) throw Object.assign(new TypeError(`Unknown option '-${a[j]}'`), { code: 'ERR_PARSE_ARGS_UNKNOWN_OPTION' }); continue } if (e[1].type === 'string') { set(e[0], a.slice(j + 1) || args[++i]); break } set(e[0], true) } } else { if (!allowPositionals && strict) throw Object.assign(new TypeError(`Unexpected argument '${a}'. This command does not take positional arguments`), { code: 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL' }); positionals.push(a) } } return { values: Object.assign(Object.create(null), values), positionals } } }
const runChild = (args, o = {}) => { flush(); const e = o.env || process.env, r = JSON.parse(call('run', JSON.stringify({ args, cwd: o.cwd ? path.resolve(toPath(o.cwd)) : cwd, env: Object.entries(e).map(([k, v]) => k + '=' + v), inherit: o.stdio === 'inherit' || Array.isArray(o.stdio) && o.stdio[1] === 'inherit', inheritErr: o.stdio === 'inherit' || Array.isArray(o.stdio) && o.stdio[2] === 'inherit' || o._err, stdin: o.stdio === 'inherit' }), o.input === undefined ? '' : bytesOf(o.input))); const dec = s => { const b = Buffer.from(s || '', 'base64'), en = o.encoding && o.encoding !== 'buffer' ? o.encoding : null; return en ? b.toString(en) : b }; return { pid: r.pid, status: r.signal ? null : r.status, signal: r.signal || null, stdout: r.inherit ? null : dec(r.stdout), stderr: r.inherit ? null : dec(r.stderr), error: r.error ? fail(r.error, `spawnSync ${args[0]} ${r.error}`, { errno: -2, syscall: 'spawnSync ' + args[0], path: args[0] }) : undefined } }
const orThrow = (r, cmd) => { if (r.error) throw r.error; if (r.status !== 0) throw Object.assign(new Error(`Command failed: ${cmd}${r.stderr && r.stderr.length ? '\n' + r.stderr : ''}`), { status: r.status, signal: r.signal, stdout: r.stdout, stderr: r.stderr, pid: r.pid, output: [null, r.stdout, r.stderr] }); return r.stdout }
const split = (a, o) => Array.isArray(a) ? [a, o] : [[], a]
const shellOf = (c, a, o) => o && o.shell ? ['/bin/sh', '-c', [c, ...a].join(' ')] : [c, ...a]
const later = (args, o, cb, cmd) => { const c = new EventEmitter(); c.stdout = new Readable(() => c._out); c.stderr = new Readable(() => c._err); c.stdin = { _t: [], write (t) { this._t.push(Buffer.from(t)); return true }, end (t) { if (t) this.write(t) }, on () { return this } }; c.kill = () => false; setImmediate(() => { const r = runChild(args, { ...o, encoding: 'buffer', input: c.stdin._t.length ? Buffer.concat(c.stdin._t) : o && o.input }); c.pid = r.pid; c._out = r.stdout || Buffer.alloc(0); c._err = r.stderr || Buffer.alloc(0); if (r.error) { if (cb) cb(r.error, '', ''); else c.emit('error', r.error); return } c.exitCode = r.status; c.stdout._start(); c.stderr._start(); setTimeout(() => { c.emit('exit', r.status, r.signal); c.emit('close', r.status, r.signal) }, 1); if (cb) { const en = o && o.encoding === 'buffer' ? null : 'utf8', so = en ? c._out.toString() : c._out, se = en ? c._err.toString() : c._err; cb(r.status === 0 ? null : Object.assign(new Error(`Command failed: ${cmd}\n${se}`), { code: r.status, killed: false, signal: r.signal, cmd, stdout: so, stderr: se }), so, se) } }); return c }
const child_process = { spawnSync: (c, a, o) => { [a, o] = split(a, o); const r = runChild(shellOf(c, a, o), o); r.output = [null, r.stdout, r.stderr]; return r }, execFileSync: (c, a, o) => { [a, o] = split(a, o); return orThrow(runChild(shellOf(c, a, o), { _err: true, ...o }), [c, ...a].join(' ')) }, execSync: (c, o) => orThrow(runChild(['/bin/sh', '-c', c], { _err: true, ...o }), c),
  exec: (c, o, cb) => { if (typeof o === 'function') { cb = o; o = {} } return later(['/bin/sh', '-c', c], o || {}, cb, c) }, execFile: (c, a, o, cb) => { if (typeof a === 'function') { cb = a; a = []; o = {} } else if (!Array.isArray(a)) { cb = o; o = a; a = [] } if (typeof o === 'function') { cb = o; o = {} } return later([c, ...a], o || {}, cb, [c, ...a].join(' ')) }, spawn: (c, a, o) => { [a, o] = split(a, o); return later(shellOf(c, a, o), o || {}) }, fork: () => { throw fail('ENOSYS', 'fork is not supported: use spawn with node') } }
for (const n of ['exec', 'execFile']) child_process[n][promisify.custom] = (...a) => new Promise((resolve, reject) => child_process[n](...a, (e, stdout, stderr) => e ? reject(e) : resolve({ stdout, stderr })))
const readline = { createInterface: o => { const input = o.input || o, rl = new EventEmitter(); let lines, asked = []; const load = () => { if (!lines) { const t = input._read ? input._read().toString() : ''; lines = t.split(/\r?\n/); if (lines[lines.length - 1] === '') lines.pop() } return lines }; let begun = false; const start = () => { if (begun) return; begun = true; setImmediate(() => { for (load(); lines.length && !rl.closed;) rl.emit('line', lines.shift()); rl.close() }) }; const on = rl.on; rl.on = (e, f) => { on.call(rl, e, f); if (e === 'line') start(); return rl }; rl.close = () => { if (!rl.closed) { rl.closed = true; rl.emit('close') } }; rl.question = (q, opt, cb) => { if (typeof opt === 'function') cb = opt; if (o.output) writeOut(q); const answer = () => { load(); const l = lines.shift(); if (l !== undefined) cb(l); else rl.close() }; if (cb) setImmediate(answer); else return new Promise(resolve => { cb = resolve; setImmediate(answer) }) }; rl.setPrompt = p => { rl._p = p }; rl.prompt = () => { if (o.output) writeOut(rl._p || '> '); start() }; rl.write = () => {}; rl.pause = rl.resume = () => rl; rl[Symbol.asyncIterator] = async function * () { load(); while (lines.length && !rl.closed) yield lines.shift() }; return rl }, clearLine () {}, cursorTo () {} }
readline.promises = readline
const os = { EOL: '\n', platform: () => 'linux', type: () => 'Linux', release: () => call('uname', 'r'), arch: () => 'x64', hostname: () => call('uname', 'n'), homedir: () => process.env.HOME || '/root', tmpdir: () => process.env.TMPDIR || '/tmp', cpus: () => [{ model: 'virtual', speed: 0, times: {} }, { model: 'virtual', speed: 0, times: {} }], totalmem: () => 512 << 20, freemem: () => 256 << 20, uptime: () => 1, loadavg: () => [0, 0, 0], userInfo: () => ({ uid: 0, gid: 0, username: 'root', homedir: '/root', shell: '/bin/bash' }), endianness: () => 'LE', networkInterfaces: () => ({}), availableParallelism: () => 2, constants: { signals: { SIGINT: 2, SIGKILL: 9, SIGTERM: 15 } }, devNull: '/dev/null', version: () => 'atoll', machine: () => 'x86_64' }
const url = { URL, URLSearchParams, fileURLToPath: u => decodeURIComponent(new URL(u).pathname), pathToFileURL: p => new URL('file://' + encodeURI(path.resolve(p))), parse: u => { const x = new URL(u, 'http://x'); return { protocol: x.protocol, host: x.host, hostname: x.hostname, port: x.port || null, pathname: x.pathname, search: x.search || null, query: x.search.slice(1) || null, hash: x.hash || null, href: x.href } }, format: u => String(u.href || u) }
const querystring = { parse: s => { const o = {}; for (const [k, v] of new URLSearchParams(s)) o[k] = k in o ? [].concat(o[k], v) : v; return o }, stringify: o => Object.entries(o).map(([k, v]) => [].concat(v).map(x => encodeURIComponent(k) + '=' + encodeURIComponent(x)).join('&')).join('&'), escape: encodeURIComponent, unescape: decodeURIComponent }
class Headers { #m = new Map(); constructor (h = {}) { for (const [k, v] of h[Symbol.iterator] ? h : Object.entries(h)) this.append(k, v) } get (k) { const v = this.#m.get(k.toLowerCase()); return v === undefined ? null : v } has (k) { return this.#m.has(k.toLowerCase()) } set (k, v) { this.#m.set(k.toLowerCase(), String(v)) } append (k, v) { k = k.toLowerCase(); this.#m.set(k, this.#m.has(k) ? this.#m.get(k) + ', ' + v : String(v)) } delete (k) { this.#m.delete(k.toLowerCase()) } forEach (f) { this.#m.forEach((v, k) => f(v, k, this)) } entries () { return this.#m.entries() } keys () { return this.#m.keys() } values () { return this.#m.values() } [Symbol.iterator] () { return this.entries() } [inspect.custom] (d, o, i) { return 'Headers ' + i(Object.fromEntries(this.#m)) } }
class Response { constructor (body, init = {}) { this.status = init.status || 200; this.statusText = init.statusText || ''; this.headers = init.headers instanceof Headers ? init.headers : new Headers(init.headers); this.ok = this.status >= 200 && this.status < 300; this.url = init.url || ''; this.redirected = !!init.redirected; this.type = 'basic'; this.bodyUsed = false; Object.defineProperty(this, '_b', { value: Buffer.from(body || ''), enumerable: false }) } #use () { if (this.bodyUsed) throw new TypeError('Body is unusable'); this.bodyUsed = true; return this._b } async text () { return this.#use().toString() } async json () { return JSON.parse(this.#use().toString()) } async arrayBuffer () { const b = this.#use(); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length) } async bytes () { return this.#use() } static json (v, i) { return new Response(JSON.stringify(v), i) } }
const fetch = async (u, o = {}) => { await null; flush(); const h = new Headers(o.headers); let body = o.body; if (body instanceof URLSearchParams) { if (!h.has('content-type')) h.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8'); body = body.toString() } else if (typeof body === 'string' && !h.has('content-type')) h.set('content-type', 'text/plain;charset=UTF-8'); let r; try { r = JSON.parse(call('fetch', JSON.stringify({ url: String(new URL(u)), method: (o.method || 'GET').toUpperCase(), headers: [...h], redirect: o.redirect || 'follow' }), body == null ? '' : bytesOf(body))) } catch (e) { throw Object.assign(new TypeError('fetch failed'), { cause: e }) } return new Response(Buffer.from(r.body || '', 'base64'), { status: r.status, statusText: r.statusText, headers: r.headers || [], url: r.url, redirected: r.redirected }) }
class Event { constructor (t) { this.type = t } } class EventTarget { #e = new EventEmitter(); addEventListener (t, f) { this.#e.on(t, f) } removeEventListener (t, f) { this.#e.off(t, f) } dispatchEvent (e) { this.#e.emit(e.type, e); return true } }
class AbortSignal extends EventTarget { aborted = false; reason = undefined; throwIfAborted () { if (this.aborted) throw this.reason } static timeout (ms) { const c = new AbortController(); setTimeout(() => c.abort(), ms).unref(); return c.signal } } class AbortController { signal = new AbortSignal(); abort (r = Object.assign(new Error('This operation was aborted'), { name: 'AbortError' })) { if (!this.signal.aborted) { this.signal.aborted = true; this.signal.reason = r; this.signal.dispatchEvent(new Event('abort')) } } }
const clone = (v, seen = new Map()) => { if (typeof v === 'function' || typeof v === 'symbol') throw Object.assign(new Error(`${String(v)} could not be cloned.`), { name: 'DataCloneError' }); if (typeof v !== 'object' || v === null) return v; if (seen.has(v)) return seen.get(v); let r; if (v instanceof Date) return new Date(+v); if (v instanceof RegExp) return new RegExp(v.source, v.flags); if (v instanceof Map) { r = new Map(); seen.set(v, r); for (const [k, x] of v) r.set(clone(k, seen), clone(x, seen)); return r } if (v instanceof Set) { r = new Set(); seen.set(v, r); for (const x of v) r.add(clone(x, seen)); return r } if (ArrayBuffer.isView(v)) return v.slice(); if (v instanceof Error) { r = new v.constructor(v.message); return r } r = Array.isArray(v) ? [] : {}; seen.set(v, r); for (const k of Object.keys(v)) r[k] = clone(v[k], seen); return r }
const timersPromises = { setTimeout: (ms, v) => new Promise(resolve => setTimeout(resolve, ms, v)), setImmediate: v => new Promise(resolve => setImmediate(resolve, v)), setInterval: async function * (ms, v) { for (;;) { await timersPromises.setTimeout(ms); yield v } }, scheduler: { wait: ms => timersPromises.setTimeout(ms) } }
const builtin = { fs, path, os, util, url, assert, crypto, child_process, events: EventEmitter, buffer: { Buffer, atob: s => latin1(Buffer.from(s, 'base64')), btoa: s => Buffer.from(s, 'latin1').toString('base64') }, process, readline, querystring, timers: { setTimeout, setInterval, setImmediate, clearTimeout: clear, clearInterval: clear, clearImmediate: clear }, perf_hooks: { performance }, console, string_decoder: { StringDecoder: class { constructor (e) { this.e = e } write (b) { return Buffer.from(b).toString(this.e) } end () { return '' } } }, 'fs/promises': fs.promises, 'path/posix': path, 'util/types': util.types, 'timers/promises': timersPromises, 'assert/strict': assert, 'readline/promises': readline, stream: { Readable, Writable, EventEmitter }, module: { createRequire: f => makeRequire(path.dirname(String(f).startsWith('file:') ? url.fileURLToPath(f) : f)), builtinModules: [] }, async_hooks: { AsyncLocalStorage: class { run (s, f, ...a) { const k = this.s; this.s = s; try { return f(...a) } finally { this.s = k } } getStore () { return this.s } } }, constants: {}, tty: { isatty: () => false }, v8: { serialize: v => Buffer.from(JSON.stringify(v)), deserialize: b => JSON.parse(b) } }
builtin.module.builtinModules = Object.keys(builtin)
const absent = { http: 'use fetch', https: 'use fetch', http2: 'use fetch', net: 'use fetch: there are no sockets', tls: 'use fetch', dgram: 'there are no sockets', dns: 'use fetch with the name of the host', cluster: 'use child_process', worker_threads: 'use child_process.spawn with node', zlib: 'run gzip or gunzip with child_process', vm: 'use new Function', inspector: 'use console.log', repl: 'pass a script', test: 'use node:assert in a script' }
const findBuiltin = id => { const name = id.replace(/^node:/, ''); if (Object.prototype.hasOwnProperty.call(builtin, name)) return builtin[name]; if (Object.prototype.hasOwnProperty.call(absent, name) && (id.startsWith('node:') || name !== 'test')) throw fail('ERR_UNKNOWN_BUILTIN_MODULE', `module ${name} is not supported in a virtual sandbox: ${absent[name]}`) }
const cache = Object.create(null)
const readPackage = d => { try { return JSON.parse(call('readText', d + '/package.json')) } catch (e) { if (e instanceof SyntaxError) throw new SyntaxError(`${d}/package.json: ${e.message}`); return null } }
const isFile = p => { try { return new Stats(call('stat', p, true)).isFile() } catch { return false } }, isDir = p => { try { return new Stats(call('stat', p, true)).isDirectory() } catch { return false } }
const pick = (e, conds) => { if (typeof e === 'string' || e == null) return e; if (Array.isArray(e)) return pick(e[0], conds); for (const [k, v] of Object.entries(e)) if (conds.includes(k)) { const r = pick(v, conds); if (r) return r } }
const exported = (pkg, sub, conds) => { const x = pkg.exports; if (x === undefined) return undefined; const map = typeof x === 'string' || Array.isArray(x) || !Object.keys(x).some(k => k[0] === '.') ? { '.': x } : x; if (sub in map) return pick(map[sub], conds); for (const [k, v] of Object.entries(map)) { const i = k.indexOf('*'); if (i >= 0 && sub.startsWith(k.slice(0, i)) && sub.endsWith(k.slice(i + 1)) && sub.length >= k.length) { const r = pick(v, conds); return r && r.replaceAll('*', sub.slice(i, sub.length - (k.length - i - 1))) } } return null }
const asFile = p => { for (const e of ['', '.js', '.json', '.cjs', '.mjs']) if (isFile(p + e)) return p + e }
const asDir = p => { if (!isDir(p)) return; const pkg = readPackage(p); if (pkg && pkg.main) { const m = path.resolve(p, pkg.main), f = asFile(m) || asFile(m + '/index'); if (f) return f } return asFile(p + '/index') }
const resolve = (id, dir, conds) => {
  if (id.startsWith('file:')) id = url.fileURLToPath(id)
  let f
  if (/^(\.\.?(\/|$)|\/)/.test(id)) { const p = path.resolve(dir, id); f = (id.endsWith('/') ? undefined : asFile(p)) || asDir(p) } else if (id[0] !== '#') {
    const parts = id.split('/'), name = id[0] === '@' ? parts.slice(0, 2).join('/') : parts[0], sub = '.' + id.slice(name.length)
    for (let d = dir; !f; d = path.dirname(d)) { const base = (d === '/' ? '' : d) + '/node_modules/' + name; if (isDir(base)) { const pkg = readPackage(base) || {}, e = exported(pkg, sub, conds); if (e) f = path.resolve(base, e); else if (e === null) throw fail('ERR_PACKAGE_PATH_NOT_EXPORTED', `Package subpath '${sub}' is not defined by "exports" in ${base}/package.json`); else f = sub === '.' ? conds.includes('import') && pkg.module && isFile(path.resolve(base, pkg.module)) ? path.resolve(base, pkg.module) : asDir(base) : asFile(base + sub.slice(1)) || asDir(base + sub.slice(1)) } if (d === '/') break }
  }
  if (!f) throw fail('MODULE_NOT_FOUND', `Cannot find module '${id}'\nRequire stack:\n- ${dir}${/^[.\/]/.test(id) ? '' : '\n(npm cannot install packages in a virtual sandbox: put plain JavaScript below node_modules)'}`)
  return call('realpath', f)
}
const typeOf = f => { if (/\.mjs$/.test(f)) return 'module'; if (/\.cjs$/.test(f)) return 'commonjs'; for (let d = path.dirname(f); ; d = path.dirname(d)) { const p = readPackage(d); if (p) return p.type || ''; if (d === '/') return '' } }
const stripBang = s => s.replace(/^\ufeff/, '').replace(/^#!.*/, '')
const script = s => stripBang(s).replace(/(^|[^.\w$'"`])import\s*\((?!\s*\))/g, '$1__atoll.import(__dirname, ')
const moduleText = (s, f) => stripBang(s).replaceAll('import.meta.url', JSON.stringify(url.pathToFileURL(f).href)).replaceAll('import.meta.filename', JSON.stringify(f)).replaceAll('import.meta.dirname', JSON.stringify(path.dirname(f)))
const makeRequire = dir => { const r = id => { if (typeof id !== 'string' || id === '') throw Object.assign(new TypeError('The "id" argument must be of type string. Received ' + inspect(id)), { code: 'ERR_INVALID_ARG_TYPE' }); const b = findBuiltin(id); return b !== undefined ? b : load(resolve(id, dir, ['node', 'require', 'default'])).exports }; r.resolve = id => findBuiltin(id) !== undefined ? id : resolve(id, dir, ['node', 'require', 'default']); r.cache = cache; r.main = mainModule; return r }
let mainModule
const load = f => {
  if (cache[f]) return cache[f]
  const m = { id: f, filename: f, path: path.dirname(f), exports: {}, loaded: false, children: [], paths: [] }
  cache[f] = m
  try {
    const src = call('readText', f)
    if (f.endsWith('.json')) { try { m.exports = JSON.parse(src.replace(/^\ufeff/, '')) } catch (e) { throw new SyntaxError(`${f}: ${e.message}`) } } else if (typeOf(f) === 'module') throw fail('ERR_REQUIRE_ESM', `require() of ES Module ${f} not supported.\nInstead change the require to a dynamic import() which is available in all CommonJS modules.`)
    else { const fn = new Function('exports', 'require', 'module', '__filename', '__dirname', script(src)); fn.call(m.exports, m.exports, makeRequire(m.path), m, f, m.path) }
  } catch (e) { delete cache[f]; throw e }
  m.loaded = true
  return m
}
Object.assign(G, { console, process, Buffer, global: G, setTimeout, setInterval, setImmediate, clearTimeout: clear, clearInterval: clear, clearImmediate: clear, URL, URLSearchParams, TextEncoder, TextDecoder, performance, structuredClone: v => clone(v), fetch, Headers, Response, AbortController, AbortSignal, Event, EventTarget, atob: builtin.buffer.atob, btoa: builtin.buffer.btoa })
Object.defineProperty(G, 'crypto', { value: { ...crypto, subtle: {} }, configurable: true, writable: true })
if (typeof G.queueMicrotask !== 'function') G.queueMicrotask = f => { Promise.resolve().then(f) }
for (const k of ['global', 'console', 'process', 'Buffer']) Object.defineProperty(G, k, { enumerable: false })
const esmExports = f => { const b = findBuiltin(f.replace(/^builtin:/, '')); return Object.keys(b).concat(b === EventEmitter ? ['EventEmitter', 'once'] : []).filter((k, i, l) => ident.test(k) && k !== 'default' && l.indexOf(k) === i) }
Object.defineProperty(G, '__atoll', { value: { builtin: findBuiltin, load: f => load(f).exports, import: async (dir, id) => { id = String(id); return import(findBuiltin(id) !== undefined ? 'builtin:' + id.replace(/^node:/, '') : resolve(id, path.resolve(dir), ['node', 'import', 'default'])) } }, enumerable: false })
const reserved = new Set('break case catch class const continue debugger default delete do else enum export extends false finally for function if import in instanceof new null return super switch this throw true try typeof var void while with yield let static await'.split(' '))
const report = e => { const s = e instanceof Error ? inspect(e) : typeof e === 'string' ? `Uncaught '${e}'` : 'Uncaught ' + inspect(e); writeErr(`Uncaught:\n${s}\n\nNode.js v20.20.2\n`) }
const fatal = e => { if (process.listenerCount('uncaughtException')) { process.emit('uncaughtException', e); return } try { report(e) } catch { } process.exitCode = 1; exitNow(1) }
const watch = r => { if (r instanceof Promise) r.then(undefined, fatal) }
return function driver (op, a, b) {
  switch (op) {
    case 'script': { // a: source, b: file or [eval]
      try {
        if (b[0] !== '/') { Object.assign(G, { require: makeRequire(cwd), module: { exports: {} }, exports: {}, __filename: b, __dirname: '.' }); for (const k of Object.keys(builtin)) if (ident.test(k) && !(k in G)) Object.defineProperty(G, k, { value: builtin[k], configurable: true, writable: true }); const r = (0, eval)(script(a)); watch(r); runTicks(); return { value: r } }
        const m = { id: '.', filename: b, path: path.dirname(b), exports: {}, loaded: false, children: [], paths: [] }
        mainModule = cache[b] = m
        const names = ['exports', 'require', 'module', '__filename', '__dirname'], args = [m.exports, makeRequire(m.path), m, b, m.path]
        let fn
        try { fn = new Function(...names, script(a)) } catch (e) { throw e }
        const last = /(?:^|[;\n}])\s*(?:\(?\s*async\b|main\s*\(|run\s*\(|start\s*\(|\w+\s*\(\s*\))[^\n]*\s*$/.test(a.trimEnd())
        watch(last && !/^\s*return\b/m.test(a) ? new Function(...names, 'return eval(arguments[5])').call(m.exports, ...args, script(a)) : fn.call(m.exports, ...args))
        m.loaded = true
        runTicks()
      } catch (e) { fatal(e) }
      return
    }
    case 'print': { const r = driver('script', a, b); if (r) writeOut((typeof r.value === 'string' ? r.value : inspect(r.value)) + '\n'); return }
    case 'module': try { a.then(undefined, fatal) } catch (e) { fatal(e) } return
    case 'fatal': fatal(a); return
    case 'syntax': { const e = new SyntaxError(a); e.stack = ''; writeErr(`${b}\n\nSyntaxError: ${a}\n\nNode.js v20.20.2\n`); process.exitCode = 1; exitNow(1); return }
    case 'resolve': { // a: id, b: referrer; returns the name of a module
      if (a.startsWith('builtin:')) return a
      if (findBuiltin(a) !== undefined) return 'builtin:' + a.replace(/^node:/, '')
      return resolve(a, b[0] === '/' ? path.dirname(b) : cwd, ['node', 'import', 'default'])
    }
    case 'source': { // a: name of a module; returns its source
      if (a.startsWith('builtin:')) { const id = JSON.stringify(a.slice(8)); return `const m = globalThis.__atoll.builtin(${id});\nexport default m;\n` + esmExports(a).filter(k => !reserved.has(k)).map(k => `export const ${k} = m.${k};`).join('\n') }
      const src = a === mainFile.name ? mainFile.source : call('readText', a)
      if (a.endsWith('.json')) return `export default ${JSON.stringify(JSON.parse(src))};`
      const t = typeOf(a)
      if (t === 'module' || a === mainFile.name || t === '' && /^\s*(import\b[^(]|export\b)/m.test(src) && !/\bmodule\.exports\b/.test(src)) return moduleText(src, a)
      const e = load(a).exports, names = e && (typeof e === 'object' || typeof e === 'function') ? Object.keys(e).filter(k => ident.test(k) && !reserved.has(k)) : []
      return `const m = globalThis.__atoll.load(${JSON.stringify(a)});\nexport default m;\n` + names.map(k => `export const ${k} = m.${k};`).join('\n')
    }
    case 'type': return typeOf(a)
    case 'turn': { // runs the timers that are due; returns ms until the next one, or -1
      try {
        if (ticks.length) { runTicks(); return 0 }
        const now = Date.now(), due = timers.filter(t => t.at <= now).sort((x, y) => x.at - y.at || x.seq - y.seq)
        if (due.length) {
          const t = due[0]
          if (t.every) { t.at = now + t.every; t.seq = timerId++ } else timers = timers.filter(x => x !== t)
          t.f(...t.a)
          return 0
        }
      } catch (e) { fatal(e); return 0 }
      flush()
      const live = timers.filter(t => !t.unref)
      if (!live.length) return -1
      return Math.max(1, Math.min(...live.map(t => t.at)) - Date.now())
    }
    case 'beforeExit': { if (!process._before) { process._before = true; process.emit('beforeExit', process.exitCode || 0) } return timers.some(t => !t.unref) ? 1 : -1 }
    case 'end': exitNow(process.exitCode); return
  }
}
})
