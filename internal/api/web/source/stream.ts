// One terminal of a sandbox over a WebSocket of the subprotocol exec.v1.atoll:
// binary messages whose first byte says what the rest is.

export interface Size { rows: number; cols: number }
export interface Problem { status: number; kind: string; detail?: string }
export interface Exit { code: number; signal?: string; error?: Problem }

export interface Listener {
  /** The terminal has this size; what follows is shown in it. */
  sized(size: Size): void
  /** Output; taken is called once, when it is on the screen. */
  output(data: Uint8Array, taken: () => void): void
  /** The last that comes. Without an exit the connection broke. */
  ended(exit: Exit | undefined, opened: boolean): void
}

const protocol = 'exec.v1.atoll'
const [stdin, stdout, control] = [0, 1, 3]
const outputWindow = 128 << 10 // output that may be on its way here
const inputWindow = 256 << 10 // input that may be on its way there
const piece = 16 << 10 // of input in one message

export class Stream {
  private readonly ws: WebSocket
  private opened = false
  private exit: Exit | undefined
  private unacknowledged = 0
  private waiting: Uint8Array[] = []
  private taken = 0
  private size: Size | undefined

  constructor(url: URL, token: string, size: Size, readOnly: boolean, private readonly to: Listener) {
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    url.searchParams.set('window', String(outputWindow))
    url.searchParams.set('sized', 'true')
    url.searchParams.set('history', 'true')
    if (size.rows > 0 && size.cols > 0) {
      url.searchParams.set('rows', String(size.rows))
      url.searchParams.set('cols', String(size.cols))
    }
    if (readOnly) url.searchParams.set('read_only', 'true')
    this.ws = new WebSocket(url, [protocol, 'bearer.atoll.' + token])
    this.ws.binaryType = 'arraybuffer'
    this.ws.onopen = () => {
      this.opened = true
      if (this.size) this.tell({ resize: this.size })
      this.flush() // what was typed meanwhile
    }
    this.ws.onmessage = (m) => this.message(new Uint8Array(m.data as ArrayBuffer))
    this.ws.onclose = () => this.to.ended(this.exit, this.opened)
  }

  /** Types, as fast as the other end takes it. */
  type(data: Uint8Array): void {
    for (let i = 0; i < data.length; i += piece) this.waiting.push(data.subarray(i, i + piece))
    this.flush()
  }

  /** What was typed and never sent. */
  unsent(): Uint8Array[] { return this.waiting }

  /** Tells the size of this window. */
  resize(size: Size): void {
    this.size = size
    if (this.opened) this.tell({ resize: size })
  }

  /** Leaves; nothing is told any more. */
  leave(): void {
    this.ws.onmessage = this.ws.onclose = this.ws.onopen = null
    this.ws.close()
  }

  private message(m: Uint8Array): void {
    if (m[0] === stdout) {
      const n = m.length - 1
      this.to.output(m.subarray(1), () => this.took(n))
    } else if (m[0] === control) {
      const c = JSON.parse(new TextDecoder().decode(m.subarray(1))) as { size?: Size; ack?: number; exit?: Exit }
      if (c.size) this.to.sized({ rows: c.size.rows, cols: c.size.cols })
      if (c.ack) {
        this.unacknowledged -= c.ack
        this.flush()
      }
      if (c.exit) this.exit = c.exit
    }
  }

  // took acknowledges output in lumps: a message for each piece would cost more
  // than the piece.
  private took(n: number): void {
    this.taken += n
    if (this.taken >= outputWindow / 8) {
      this.tell({ ack: this.taken })
      this.taken = 0
    }
  }

  private flush(): void {
    for (let p = this.waiting[0]; p && this.unacknowledged + p.length <= inputWindow; p = this.waiting[0]) {
      const m = new Uint8Array(1 + p.length)
      m[0] = stdin
      m.set(p, 1)
      if (!this.send(m)) return
      this.unacknowledged += p.length
      this.waiting.shift()
    }
  }

  private tell(c: object): void {
    const text = new TextEncoder().encode(JSON.stringify(c))
    const m = new Uint8Array(1 + text.length)
    m[0] = control
    m.set(text, 1)
    this.send(m)
  }

  private send(m: Uint8Array<ArrayBuffer>): boolean {
    if (this.ws.readyState !== WebSocket.OPEN) return false
    this.ws.send(m)
    return true
  }
}
