// The resource usage of a sandbox over time.

import { useEffect, useRef, useState } from 'preact/hooks'
import { bytes, Empty, path, Problem, useAsk, useShared } from './parts'
import type { Sandbox } from './types'

export interface Sample { time: string; cpu: number; memory: number; disk: number; processes: number; sent: number; received: number }
export interface Series { interval: number; samples: Sample[] }

const ranges: [string, string, number][] = [['5', '5 minutes', 300], ['30', '30 minutes', 1800], ['1440', '24 hours', 86_400]]
const [width, height] = [600, 120]

interface Line { name: string; values: number[] }

/** A chart of one or two lines: SVG with presentation by classes, since the policy allows no inline styles. */
function Chart({ title, times, lines, show, from, to }: { title: string; times: number[]; lines: Line[]; show(n: number): string; from: number; to: number }) {
  const [at, point] = useState<number>()
  const box = useRef<SVGSVGElement>(null)
  const all = lines.flatMap((l) => l.values)
  const most = Math.max(...all, 0)
  const top = most > 0 ? most * 1.1 : 1
  const x = (t: number) => ((t - from) / (to - from)) * width
  const y = (v: number) => height - (v / top) * height
  const gap = Math.max(...times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b).slice(0, Math.ceil(times.length / 2)), 0) * 3 // longer: the sandbox did not run
  const draw = (values: number[]) => values.map((v, i) => `${i && times[i] - times[i - 1] <= gap ? 'L' : 'M'}${x(times[i]).toFixed(1)} ${y(v).toFixed(1)}`).join('')
  const nearest = (clientX: number) => {
    const r = box.current!.getBoundingClientRect()
    const t = from + ((clientX - r.left) / r.width) * (to - from)
    point(times.reduce((best, other, i) => (Math.abs(other - t) < Math.abs(times[best] - t) ? i : best), 0))
  }
  const last = at ?? times.length - 1
  const now = lines.map((l) => (lines.length > 1 ? l.name + ' ' : '') + show(l.values[last] ?? 0)).join(', ')
  return (
    <figure class="chart">
      <figcaption><b>{title}</b> <span class="number">{now}</span>{at !== undefined && <span class="faint"> {new Date(times[at]).toLocaleTimeString([], { hour12: false })}</span>}<span class="faint most">at most {show(most)}</span></figcaption>
      <svg ref={box} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${now}, at most ${show(most)}`} onPointerMove={(e) => nearest(e.clientX)} onPointerLeave={() => point(undefined)}>
        {[0.25, 0.5, 0.75].map((f) => <line class="grid" x1="0" x2={width} y1={height * f} y2={height * f} />)}
        {lines.map((l, i) => <path class={'series s' + i} d={draw(l.values)} vector-effect="non-scaling-stroke" />)}
        {at !== undefined && <line class="cursor" x1={x(times[at])} x2={x(times[at])} y1="0" y2={height} vector-effect="non-scaling-stroke" />}
      </svg>
    </figure>
  )
}

/** Tells how the traffic of each sample is per second. */
const perSecond = (samples: Sample[], of: 'sent' | 'received', interval: number): number[] => samples.map((s, i) => {
  const ms = i ? Date.parse(s.time) - Date.parse(samples[i - 1].time) : interval * 1000
  return ms > 0 ? s[of] / (ms / 1000) : 0
})

export function MetricsTab({ s }: { s: Sandbox }) {
  const { live } = useShared()
  const [range, setRange] = useState('30')
  const seconds = ranges.find(([k]) => k === range)![2]
  const [moment, setMoment] = useState(() => Date.now())
  const l = useAsk<Series>(path('sandboxes', s.id, 'usage') + '?since=' + encodeURIComponent(new Date(moment - seconds * 1000).toISOString()))
  const kept = useRef<Series>()
  if (l.value) kept.current = l.value
  const series = l.value ?? kept.current // a new reading does not blank the charts
  const interval = series?.interval ?? 10
  useEffect(() => live.subscribe(() => setMoment((m) => (Date.now() - m >= Math.max(interval, 2) * 1000 ? Date.now() : m))), [live, interval]) // usage events come now and then
  const list = (series?.samples ?? []).filter((p) => Date.parse(p.time) >= moment - seconds * 1000)
  const times = list.map((p) => Date.parse(p.time))
  const shared = { times, from: Math.max(moment - seconds * 1000, times[0] ?? 0), to: Math.max(moment, times[times.length - 1] ?? 0) }
  return (
    <>
      <div class="line"><label>Range <select value={range} onChange={(e) => { setRange(e.currentTarget.value); setMoment(Date.now()) }}>{ranges.map(([k, name]) => <option value={k}>{name}</option>)}</select></label>
        <span class="faint">{list.length} samples since the server started, one in {interval} s or less often</span></div>
      <Problem error={l.error} />
      {series && !list.length && <Empty>There is no sample yet. The server takes one every {interval} seconds while the sandbox runs.</Empty>}
      {list.length > 0 && <div class="charts">
        <Chart title="CPU" lines={[{ name: 'CPU', values: list.map((p) => p.cpu) }]} show={(n) => Math.round(n * 100) + ' %'} {...shared} />
        <Chart title="Memory" lines={[{ name: 'Memory', values: list.map((p) => p.memory) }]} show={(n) => bytes(Math.round(n))} {...shared} />
        <Chart title="Disk" lines={[{ name: 'Disk', values: list.map((p) => p.disk) }]} show={(n) => bytes(Math.round(n))} {...shared} />
        <Chart title="Network" lines={[{ name: 'received', values: perSecond(list, 'received', interval) }, { name: 'sent', values: perSecond(list, 'sent', interval) }]} show={(n) => bytes(Math.round(n)) + '/s'} {...shared} />
        <Chart title="Processes" lines={[{ name: 'Processes', values: list.map((p) => p.processes) }]} show={(n) => String(Math.round(n))} {...shared} />
      </div>}
    </>
  )
}
