// A scripted coding agent that speaks the Agent Client Protocol: what it does depends on the prompt.
import { execSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import readline from 'node:readline'

const hostile = '<img src=x onerror="window.hacked=1">'
const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n')
const update = (u) => send({ method: 'session/update', params: { sessionId: 's-1', update: u } })
const chunk = (kind, text) => update({ sessionUpdate: kind, content: { type: 'text', text } })
let cancel = () => {}
let decide = () => {}

async function answer(id, text) {
  const end = (reason) => send({ id, result: { stopReason: reason, usage: { inputTokens: 120, outputTokens: 30 } } })
  writeFileSync('prompt.txt', text)
  if (text.includes('wait')) {
    chunk('agent_message_chunk', 'I wait until I am interrupted.')
    await new Promise((done) => { cancel = done })
    return end('cancelled')
  }
  if (text.includes('act')) {
    for (const part of ['Thinking ', 'about ', hostile]) chunk('agent_thought_chunk', part)
    chunk('agent_message_chunk', 'I write a file. ' + hostile)
    const call = { toolCallId: 'c1', title: 'echo done >acted.txt ' + hostile, kind: 'execute', rawInput: { command: 'echo done >acted.txt' } }
    update({ sessionUpdate: 'tool_call', ...call, status: 'pending' })
    send({ id: 'ask', method: 'session/request_permission', params: { sessionId: 's-1', toolCall: call, options: [{ optionId: 'yes', kind: 'allow_once', name: 'Allow' }, { optionId: 'always', kind: 'allow_always', name: 'Always' }, { optionId: 'no', kind: 'reject_once', name: 'Reject' }] } })
    const outcome = await new Promise((done) => { decide = done })
    const allowed = outcome.optionId === 'yes' || outcome.optionId === 'always'
    if (allowed) execSync('echo done >acted.txt')
    const diff = { type: 'diff', path: '/workspace/acted.txt', oldText: null, newText: 'done\n' }
    update({ sessionUpdate: 'tool_call_update', toolCallId: 'c1', status: allowed ? 'completed' : 'failed', content: [{ type: 'content', content: { type: 'text', text: 'wrote 5 bytes ' + hostile } }, diff] })
    chunk('agent_message_chunk', allowed ? 'It is done.' : 'I was not allowed.')
    return end('end_turn')
  }
  chunk('agent_message_chunk', 'Read: ' + text)
  end('end_turn')
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const m = JSON.parse(line)
  switch (m.method) {
    case 'initialize': send({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'scripted', version: '1' }, agentCapabilities: { loadSession: true } } }); break
    case 'session/new': send({ id: m.id, result: { sessionId: 's-1' } }); break
    case 'session/load': send({ id: m.id, result: {} }); break
    case 'session/prompt': void answer(m.id, m.params.prompt.map((p) => p.text ?? '').join('')); break
    case 'session/cancel': cancel(); break
    default: if (m.id === 'ask' && m.result) decide(m.result.outcome)
  }
}
