// What the page asks the server for, with the token of who looks at it.

export interface Link { sandbox: string; name?: string; terminal?: string }
export interface Who { owner: { app: string; user: string }; scopes: string[]; link?: Link; token?: string; provider?: string }
export interface LoginProvider { name: string; browser: boolean }
export interface Sandbox { id: string; name?: string; state: string }
export interface Terminal { name: string; title?: string; command: string; rows: number; cols: number; clients: number; viewers?: { name?: string; read_only?: boolean }[]; running: boolean; code: number }

const patience = 20_000 // ms for an answer

/** A refusal of the server; status 0: it could not be reached. */
export class Refused extends Error {
  constructor(readonly status: number, detail: string) { super(detail) }
}

/** An address of the server, which is beside the page, wherever a proxy has put the two. */
export function serverURL(path: string): URL { return new URL('../' + path, location.origin + location.pathname) }

/** The providers by which users can log in here; none if the server does not answer. */
export async function loginProviders(): Promise<LoginProvider[]> {
  try {
    const answer = await fetch(serverURL('login'), { credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(patience) })
    return ((await answer.json()) as { items: LoginProvider[] }).items.filter((p) => p.browser)
  } catch {
    return []
  }
}

/** Takes the token of the login that this browser has finished; undefined: there is none. The server knows the browser by a cookie. */
export async function claimLogin(): Promise<string | undefined> {
  try {
    const answer = await fetch(serverURL('login/claim'), { method: 'POST', credentials: 'same-origin', cache: 'no-store', signal: AbortSignal.timeout(patience) })
    return answer.ok ? ((await answer.json()) as { access_token: string }).access_token : undefined
  } catch {
    return undefined
  }
}

export class API {
  constructor(readonly token: string) {}

  who(): Promise<Who> { return this.ask('GET', 'v1/info') }
  async sandboxes(): Promise<Sandbox[]> { return (await this.ask<{ items: Sandbox[] }>('GET', 'v1/sandboxes')).items }
  async terminals(sandbox: string): Promise<Terminal[]> { return (await this.ask<{ items: Terminal[] }>('GET', this.path(sandbox))).items }
  open(sandbox: string): Promise<Terminal> { return this.ask('POST', this.path(sandbox), {}) }
  async close(sandbox: string, terminal: string): Promise<void> { await this.ask('DELETE', this.path(sandbox, terminal)) }
  attachURL(sandbox: string, terminal: string): URL { return this.url(this.path(sandbox, terminal) + '/attach') }

  private path(sandbox: string, terminal?: string): string {
    const at = 'v1/sandboxes/' + encodeURIComponent(sandbox) + '/terminals'
    return terminal === undefined ? at : at + '/' + encodeURIComponent(terminal)
  }

  private url(path: string): URL { return serverURL(path) }

  /** Calls the API with a JSON body; answers with its JSON. */
  async ask<T>(method: string, path: string, body?: object): Promise<T> {
    const answer = await this.send(method, path, body && JSON.stringify(body), 'application/json', AbortSignal.timeout(patience))
    return (answer.status === 204 ? undefined : await answer.json()) as T
  }

  /** Calls the API; answers with what succeeded, and throws Refused else. */
  async send(method: string, path: string, body: BodyInit | undefined, kind: string, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Authorization: 'Bearer ' + this.token }
    if (body !== undefined) headers['Content-Type'] = kind
    let answer: Response
    try {
      answer = await fetch(this.url(path), { method, headers, body, credentials: 'omit', cache: 'no-store', signal })
    } catch {
      throw new Refused(0, 'the server can not be reached')
    }
    if (!answer.ok) {
      const problem = (await answer.json().catch(() => ({}))) as { detail?: string; title?: string }
      throw new Refused(answer.status, problem.detail || problem.title || answer.statusText)
    }
    return answer
  }
}
