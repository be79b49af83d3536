package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Limits of the history of commands: the newest are kept, with the beginning of their output.
const (
	maxHistoryRows    = 1000
	maxHistoryOwn     = 300      // of atoll itself, besides
	maxHistoryOutput  = 64 << 10 // bytes of each stream
	maxHistoryCommand = 16 << 10
	maxHistoryError   = 4 << 10
	historySlack      = 64 // excess rows tolerated until the next trim

	maxHistoryPerSandbox = 16 << 20  // bytes of output of a sandbox's commands
	maxHistoryPerOwner   = 128 << 20 // bytes of output of all commands of an owner
	historyPart          = 16        // excess tolerated until the next trim: a 16th
)

// Limits of one answer. Beyond maxHistoryAnswer bytes, older commands come without their output.
const (
	defaultHistoryLimit = 100
	maxHistoryAnswer    = 8 << 20
	shortenedSize       = 1 << 10 // bytes of the command and of the error of a command without output
)

// History returns the newest commands of the sandbox, oldest first, with secrets hidden and without those of atoll
// itself. It works with every driver.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	return s.Commands(ctx, HistoryFilter{Limit: maxHistoryRows})
}

// HistoryFilter selects commands of the history.
type HistoryFilter struct {
	Limit    int  // the newest; 0: 100; at most 1,000
	Internal bool // also those of atoll itself
}

// Commands returns the newest commands as History does. When the newest have filled 8 MiB, older ones come without output
// and with Truncated set.
func (s *Sandbox) Commands(ctx context.Context, f HistoryFilter) ([]atoll.Result, error) {
	limit := f.Limit
	if err := s.checkAccess("history", atoll.ScopeRead); err != nil {
		return nil, err
	}
	if err := s.checkExists(); err != nil {
		return nil, s.wrapError("history", err)
	}
	if limit < 0 || limit > maxHistoryRows {
		return nil, s.wrapError("history", fmt.Errorf("%w: limit %d: it must be from 0 to %d", atoll.ErrInvalid, limit, maxHistoryRows))
	}
	if limit == 0 {
		limit = defaultHistoryLimit
	}
	f.Limit = limit
	list, err := s.f.queryHistory(ctx, s.b.id, f)
	return list, s.wrapError("history", err)
}

// checkExists returns the error of a destroyed sandbox; nil if it exists.
func (s *Sandbox) checkExists() error {
	if s.b.cachedRow().state == atoll.Destroyed {
		return errDestroyed
	}
	return nil
}

func (f *Fleet) queryHistory(ctx context.Context, id string, q HistoryFilter) ([]atoll.Result, error) {
	if err := f.recorder.flush(ctx); err != nil {
		return nil, err
	}
	rows, err := f.registry.DB.QueryContext(ctx, `select command, stdout, stderr, code, truncated, internal, error, time, duration
		from commands where sandbox = ? and (? or not internal) order by id desc limit ?`, id, q.Internal, q.Limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Result{}
	bytes := 0
	for rows.Next() {
		var r atoll.Result
		var at int64
		if err := rows.Scan(&r.Command, &r.Stdout, &r.Stderr, &r.ExitCode, &r.Truncated, &r.Internal, &r.Error, &at, &r.Duration); err != nil {
			return nil, err
		}
		r.Time, r.Success = registry.Time(at), r.ExitCode == 0 && r.Error == ""
		if bytes += len(r.Command) + len(r.Stdout) + len(r.Stderr) + len(r.Error); bytes > maxHistoryAnswer {
			shortenResult(&r)
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list, rows.Err()
}

// shortenResult drops the output of a command and shortens its text.
func shortenResult(r *atoll.Result) {
	r.Truncated = r.Truncated || r.Stdout != "" || r.Stderr != ""
	r.Stdout, r.Stderr = "", ""
	r.Command, r.Error = truncate(r.Command, shortenedSize), truncate(r.Error, shortenedSize)
}

// recordCommand queues a command that has ended for the history, with the output that the taps saw
// or, without taps, that the exit holds.
func (s *Sandbox) recordCommand(p *process, cmd *atoll.Cmd, t *outputTaps, exit atoll.Exit, err error) {
	e := &commandRecord{
		mask: p.mask, sandbox: s.b.id, owner: p.owner, process: p.id, command: p.command, internal: p.internal,
		code: exit.Code, truncated: exit.Truncated, begun: p.started, duration: exit.Duration,
	}
	if err != nil {
		e.failure = err.Error()
	}
	keep := maxHistoryOutput + p.mask.maxOverlap()
	for i, kept := range [][]byte{exit.Stdout, exit.Stderr} {
		h := &e.output[i]
		if t.tap[i] != nil {
			*h = t.tap[i].takeHead()
		} else {
			*h = streamHead{buf: append([]byte(nil), kept[:min(len(kept), keep)]...), cut: len(kept) > keep}
		}
		h.cut = h.cut || exit.Truncated
	}
	s.f.recorder.add(e)
}

// streamHead is the beginning of a stream.
type streamHead struct {
	buf []byte
	cut bool // there was more
}

// commandRecord is a command to be written to the history.
type commandRecord struct {
	mask             *mask // hides the secrets
	sandbox, process string
	owner            atoll.Owner
	command          string // without secrets
	output           [2]streamHead
	code             int
	truncated        bool
	internal         bool
	failure          string
	begun            time.Time
	duration         time.Duration
	bytes            int
}

func (e *commandRecord) size() int {
	if e.bytes == 0 { // fixed: the queue is accounted with the size at the first call
		e.bytes = 400 + len(e.command) + len(e.output[0].buf) + len(e.output[1].buf) + len(e.failure)
	}
	return e.bytes
}

func (e *commandRecord) add(b *batch) {
	var out [2][]byte
	truncated := e.truncated
	for i, h := range e.output {
		truncated = truncated || h.cut || len(h.buf) > maxHistoryOutput
		out[i] = []byte(e.mask.redactHead(string(h.buf), maxHistoryOutput, h.cut))
	}
	b.addGrowth(e.sandbox, e.owner, len(out[0])+len(out[1]))
	b.history.add(e.sandbox, e.process, e.command, out[0], out[1], e.code, truncated, e.internal, truncate(e.mask.redact(e.failure), maxHistoryError), registry.Timestamp(e.begun), int64(e.duration))
}

// growth is the amount added to the history since its last trimming.
type growth struct {
	rows, bytes int
}

// addGrowth counts a command of the batch.
func (b *batch) addGrowth(sandbox string, owner atoll.Owner, bytes int) {
	g := b.historyGrowth[sandbox]
	b.historyGrowth[sandbox] = growth{g.rows + 1, g.bytes + bytes}
	b.outputGrowth[owner] += bytes
}

// trimHistory removes commands and output beyond the limits of the sandboxes and owners in a
// batch: of a sandbox at the first command that this process writes, then when enough was added.
func (l *recorder) trimHistory(ctx context.Context, tx *sql.Tx, b *batch) error {
	if len(l.historyGrowth) > 10_000 {
		clear(l.historyGrowth)
	}
	for id, g := range b.historyGrowth {
		before, seen := l.historyGrowth[id]
		g.rows += before.rows
		g.bytes += before.bytes
		if seen && g.rows < historySlack && g.bytes < maxHistoryPerSandbox/historyPart {
			l.historyGrowth[id] = g
			continue
		}
		for own, most := range map[bool]int{false: maxHistoryRows, true: maxHistoryOwn} {
			if _, err := tx.ExecContext(ctx, `delete from commands where sandbox = ?1 and internal = ?2 and id <= (select id from commands where sandbox = ?1 and internal = ?2 order by id desc limit 1 offset ?3)`, id, own, most); err != nil {
				return err
			}
		}
		if err := trimOutput(ctx, tx, maxHistoryPerSandbox, "sandbox = ?", id); err != nil {
			return err
		}
		l.historyGrowth[id] = growth{}
	}
	if len(l.outputGrowth) > 10_000 {
		clear(l.outputGrowth)
	}
	for o, bytes := range b.outputGrowth {
		if l.outputGrowth[o] += bytes; l.outputGrowth[o] < maxHistoryPerOwner/historyPart {
			continue
		}
		if err := trimOutput(ctx, tx, maxHistoryPerOwner, "app = ? and user = ?", o.App, o.User); err != nil {
			return err
		}
		delete(l.outputGrowth, o)
	}
	return nil
}

// trimOutput keeps the newest bytes of output of the commands that match a condition and clears
// the older output. The commands stay.
func trimOutput(ctx context.Context, tx *sql.Tx, most int, whose string, args ...any) error {
	// The lengths are in the row headers: no output is read.
	_, err := tx.ExecContext(ctx, `update commands set stdout = ?, stderr = ?, truncated = true where id in (
		select id from (
			select c.id, length(stdout) + length(stderr) as n, sum(length(stdout) + length(stderr)) over (partition by app, user order by c.id desc) as held
			from sandboxes s join commands c on c.sandbox = s.id where `+whose+`
		) o where held > ? and n > 0)`, append(append([]any{[]byte{}, []byte{}}, args...), most)...)
	return err
}

// commandText returns a command as typed into a shell, not much longer than limit.
func commandText(cmd *atoll.Cmd, limit int) string {
	if cmd.Shell != "" {
		return cmd.Shell[:min(len(cmd.Shell), limit)]
	}
	var b strings.Builder
	for i, a := range cmd.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() >= limit {
			break
		}
		a = a[:min(len(a), limit)]
		if a != "" && strings.IndexFunc(a, needsQuotes) < 0 {
			b.WriteString(a)
			continue
		}
		b.WriteString("'" + strings.ReplaceAll(a, "'", `'\''`) + "'")
	}
	return b.String()
}

// needsQuotes reports whether a shell treats a character specially.
func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
}

// outputTap passes a command's output on to its writer, as fast as that accepts it, and copies it
// to the ring buffer and the beginning of it to the history.
type outputTap struct {
	to     io.Writer // nil: none
	ring   *ringBuffer
	stream outStream
	limit  int // bytes of head

	mu   sync.Mutex
	head streamHead // guarded by mu
}

func (t *outputTap) Write(b []byte) (int, error) {
	t.ring.write(t.stream, b)
	t.mu.Lock()
	n := min(len(b), t.limit-len(t.head.buf))
	t.head.buf = append(t.head.buf, b[:n]...)
	t.head.cut = t.head.cut || n < len(b)
	t.mu.Unlock()
	if t.to == nil {
		return len(b), nil
	}
	return t.to.Write(b)
}

// takeHead returns the beginning of the output. Later writes, which no driver should make,
// are not part of it.
func (t *outputTap) takeHead() streamHead {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = len(t.head.buf)
	return t.head
}

// outputTaps are the taps of a command's two streams.
type outputTaps struct {
	tap  [2]*outputTap
	keep [2]*limitedBuffer // the output for the caller of Run
}

// outputAudience selects the readers of a stream that the command has no writer for.
type outputAudience int

const (
	callerOnly  outputAudience = iota // only the caller, in its Exit: the driver keeps the output
	othersToo                         // also clients that attach while it runs
	othersAlone                       // only clients that attach
)

// attachTaps puts taps before the writers of a command.
func attachTaps(cmd *atoll.Cmd, r *ringBuffer, m *mask, audience outputAudience) *outputTaps {
	t := &outputTaps{}
	writers := [2]*io.Writer{&cmd.Stdout, &cmd.Stderr}
	one := sameWriter(cmd.Stdout, cmd.Stderr)
	for i, w := range writers {
		if *w == nil && audience == othersToo {
			limit := cmd.MaxOutput
			if limit == 0 {
				limit = atoll.DefaultMaxOutput
			}
			t.keep[i] = &limitedBuffer{limit: limit}
			*w = t.keep[i]
		}
		switch {
		case *w == nil && audience == callerOnly:
		case i == 1 && one:
			*w = cmd.Stdout
		default:
			t.tap[i] = &outputTap{to: *w, ring: r, stream: outStream(i), limit: maxHistoryOutput + m.maxOverlap()}
			*w = t.tap[i]
		}
	}
	if one && t.tap[0] != nil {
		t.tap[1] = &outputTap{} // the other tap gets all of it
	}
	return t
}

// sameWriter reports whether both streams go to one writer. Writers that can't be compared are
// two.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

// fillExit stores the limited buffers in the exit, and copies output that the driver kept into the
// ring buffer.
func (t *outputTaps) fillExit(exit *atoll.Exit, r *ringBuffer) {
	for i, kept := range []*[]byte{&exit.Stdout, &exit.Stderr} {
		if k := t.keep[i]; k != nil {
			var cut bool
			*kept, cut = k.takeContents()
			exit.Truncated = exit.Truncated || cut
		} else if t.tap[i] == nil {
			r.write(outStream(i), *kept)
		}
	}
}

// limitedBuffer keeps the beginning of its input, up to a limit.
type limitedBuffer struct {
	limit int64

	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu
}

func (k *limitedBuffer) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(int64(len(b)), k.limit-int64(len(k.buf)))
	k.buf = append(k.buf, b[:n]...)
	k.cut = k.cut || n < int64(len(b))
	return len(b), nil
}

func (k *limitedBuffer) takeContents() ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf, k.cut
}
