// The begin of the page: the console, or the page of terminals that a link opens.

import { API, claimLogin, loginProviders, Refused, serverURL } from './api'
import { el, label } from './dom'
import { openConsole } from './console/main'
import type { Server } from './console/parts'
import * as look from './look'
import type { Place } from './page'

const kept = 'atoll-token'

// place reads what the address says behind '#'. A token is taken out of it at once: it must not stay in the history.
function place(): Place {
  const at = new URLSearchParams(location.hash.slice(1))
  const token = at.get('token')
  if (location.hash.startsWith('#/')) return { sandbox: '', terminal: '', readOnly: false }
  if (token) {
    sessionStorage.setItem(kept, token)
    at.delete('token')
    history.replaceState(null, '', '#' + at.toString())
  }
  return { sandbox: at.get('sandbox') ?? '', terminal: at.get('terminal') ?? '', readOnly: at.has('read_only') }
}

// xterm makes style elements, of which the policy of the page lets only those in that have its
// nonce; and style attributes, for 24-bit colours, which it never lets in: they are set as properties.
function allowStyles(): void {
  const nonce = document.querySelector('script')?.nonce ?? ''
  const create = document.createElement.bind(document)
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    const e = create(tag, options)
    if (tag === 'style') e.nonce = nonce
    return e
  }) as typeof document.createElement
  const set = HTMLElement.prototype.setAttribute
  HTMLElement.prototype.setAttribute = function (name: string, value: string) {
    if (name === 'style') this.style.cssText = value
    else set.call(this, name, value)
  }
}

// What the address says of a login that has ended.
const loginProblems: Record<string, string> = {
  '#login': 'The login was not finished in time: log in again.',
  '#login-denied': 'You may not use this server by this login. Ask its administrator: the audit of the server has the reason.',
  '#login-unavailable': 'The login provider does not answer. Try again later, or use a token.',
}

// finishLogin takes the token of a login that has ended; it answers with what is wrong, if there is something.
async function finishLogin(): Promise<string> {
  const problem = loginProblems[location.hash]
  if (problem === undefined) return ''
  const token = location.hash === '#login' ? await claimLogin() : undefined
  history.replaceState(null, '', location.pathname)
  if (token === undefined) return problem
  sessionStorage.setItem(kept, token)
  return ''
}

// addLogins adds a link for each login provider to the page that asks for a token.
async function addLogins(box: HTMLElement): Promise<void> {
  for (const p of await loginProviders()) {
    box.append(el('a', { class: 'login', href: serverURL('login/' + encodeURIComponent(p.name)).href }, 'Log in with ' + label(p.name, 40)))
  }
}

// knock asks for a login or a token where the link had none, or one that is not good.
function knock(why: string): void {
  const logins = el('div', { class: 'logins' })
  void addLogins(logins)
  const field = el('input', { type: 'password', placeholder: 'atoll_…', autocomplete: 'off', spellcheck: 'false', 'aria-label': 'Token' })
  document.body.replaceChildren(el('main', { class: 'knock' }, el('form', { submit: (e) => {
    e.preventDefault()
    sessionStorage.setItem(kept, field.value.trim())
    void begin()
  } }, el('h1', {}, 'atoll'), el('p', {}, why), logins, field, el('button', { class: 'yes' }, 'Open'),
  el('p', { class: 'hint' }, el('code', {}, 'atoll ui'), ' makes a link that needs none; ', el('code', {}, 'atoll token create'), ' makes a token.'))))
  look.follow(() => undefined)
  field.focus()
}

async function begin(): Promise<void> {
  const problem = await finishLogin()
  const at = place()
  const token = sessionStorage.getItem(kept)
  if (problem && !token) return knock(problem)
  if (!token) return knock('The console of sandboxes needs a token.')
  const api = new API(token)
  for (let wait = 500; ; wait = Math.min(wait * 2, 15_000)) {
    try {
      const who = await api.who()
      if (!who.link && !at.terminal) return openConsole(api, who as unknown as Server)
      const { Page } = await import('./page') // with the terminal, which the console needs later, if at all
      await new Page(api, who, at).run()
    } catch (e) {
      if (e instanceof Refused && e.status >= 400 && e.status < 500) {
        sessionStorage.removeItem(kept)
        return knock('The token is not good: it was revoked, or has expired, or there is a mistake in it.')
      }
      document.body.replaceChildren(el('p', { class: 'knock' }, 'The server can not be reached; trying again.'))
      await new Promise((done) => setTimeout(done, wait))
    }
  }
}

allowStyles()
addEventListener('hashchange', () => { if (location.hash.includes('token=')) location.reload() })
void begin()
