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
)

// What is remembered of a sandbox's commands: the newest, and of each the
// beginning.
const (
	historyRows    = 1000
	historyOutput  = 64 << 10 // bytes of each stream
	historyCommand = 16 << 10
	historyError   = 4 << 10
	historySlack   = 64 // rows that may be there too many, until they are trimmed

	historySandbox = 16 << 20  // bytes of output of a sandbox's commands
	historyOwner   = 128 << 20 // bytes of output of all commands of an owner
	historyPart    = 16        // what may be there too much of either, until it is dropped: a 16th
)

// What one answer tells of: beyond so many bytes, older commands come without
// their output.
const (
	historyLimit  = 100
	historyAnswer = 8 << 20
	historyBrief  = 1 << 10 // bytes of the command and of the error of those
)

// History returns the newest commands of the sandbox, oldest first, with
// secrets hidden. There is one for every driver.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	return s.Commands(ctx, historyRows)
}

// Commands returns some of the newest commands as History does: 100 if limit is
// 0, at most 1,000. When the newest of them have filled 8 MiB, what is older
// comes without output, and has Truncated set.
func (s *Sandbox) Commands(ctx context.Context, limit int) ([]atoll.Result, error) {
	if err := s.need("history", atoll.ScopeRead); err != nil {
		return nil, err
	}
	if err := s.gone(); err != nil {
		return nil, s.fail("history", err)
	}
	if limit < 0 || limit > historyRows {
		return nil, s.fail("history", fmt.Errorf("%w: limit %d: it must be from 0 to %d", atoll.ErrInvalid, limit, historyRows))
	}
	if limit == 0 {
		limit = historyLimit
	}
	list, err := s.f.history(ctx, s.b.id, limit)
	return list, s.fail("history", err)
}

// gone is the error of a sandbox that is destroyed.
func (s *Sandbox) gone() error {
	if s.b.known().state == atoll.Destroyed {
		return errDestroyed
	}
	return nil
}

func (f *Fleet) history(ctx context.Context, id string, limit int) ([]atoll.Result, error) {
	if err := f.ledger.flush(ctx); err != nil {
		return nil, err
	}
	rows, err := f.store.db.QueryContext(ctx, `select command, stdout, stderr, code, truncated, error, time, duration
		from commands where sandbox = ? order by id desc limit ?`, id, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Result{}
	bytes := 0
	for rows.Next() {
		var r atoll.Result
		var at int64
		if err := rows.Scan(&r.Command, &r.Stdout, &r.Stderr, &r.ExitCode, &r.Truncated, &r.Error, &at, &r.Duration); err != nil {
			return nil, err
		}
		r.Time, r.Success = when(at), r.ExitCode == 0 && r.Error == ""
		if bytes += len(r.Command) + len(r.Stdout) + len(r.Stderr) + len(r.Error); bytes > historyAnswer {
			brief(&r)
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list, rows.Err()
}

// brief leaves of a command what makes it known.
func brief(r *atoll.Result) {
	r.Truncated = r.Truncated || r.Stdout != "" || r.Stderr != ""
	r.Stdout, r.Stderr = "", ""
	r.Command, r.Error = clip(r.Command, historyBrief), clip(r.Error, historyBrief)
}

// remember takes down a command that has ended: what the taps saw of its
// output, or else what the exit holds.
func (s *Sandbox) remember(p *process, cmd *atoll.Cmd, t *taps, exit atoll.Exit, err error) {
	e := &commandEntry{
		mask: p.mask, sandbox: s.b.id, owner: p.owner, process: p.id, command: p.command,
		code: exit.Code, truncated: exit.Truncated, begun: p.started, duration: exit.Duration,
	}
	if err != nil {
		e.failure = err.Error()
	}
	keep := historyOutput + p.mask.slack()
	for i, kept := range [][]byte{exit.Stdout, exit.Stderr} {
		h := &e.output[i]
		if t.tap[i] != nil {
			*h = t.tap[i].taken()
		} else {
			*h = head{buf: append([]byte(nil), kept[:min(len(kept), keep)]...), cut: len(kept) > keep}
		}
		h.cut = h.cut || exit.Truncated
	}
	s.f.ledger.add(e)
}

// head is the beginning of a stream.
type head struct {
	buf []byte
	cut bool // there was more
}

// commandEntry is a command on its way to the history.
type commandEntry struct {
	mask             *mask // hides the secrets
	sandbox, process string
	owner            atoll.Owner
	command          string // without secrets
	output           [2]head
	code             int
	truncated        bool
	failure          string
	begun            time.Time
	duration         time.Duration
	bytes            int
}

func (e *commandEntry) size() int {
	if e.bytes == 0 { // it stays what it was when it came
		e.bytes = 400 + len(e.command) + len(e.output[0].buf) + len(e.output[1].buf) + len(e.failure)
	}
	return e.bytes
}

func (e *commandEntry) add(b *batch) {
	var out [2][]byte
	truncated := e.truncated
	for i, h := range e.output {
		truncated = truncated || h.cut || len(h.buf) > historyOutput
		out[i] = []byte(e.mask.head(string(h.buf), historyOutput, h.cut))
	}
	b.grow(e.sandbox, e.owner, len(out[0])+len(out[1]))
	b.history.add(e.sandbox, e.process, e.command, out[0], out[1], e.code, truncated, clip(e.mask.text(e.failure), historyError), stamp(e.begun), int64(e.duration))
}

// growth is what has come to the history.
type growth struct {
	rows, bytes int
}

// grow counts a command of a batch.
func (b *batch) grow(sandbox string, owner atoll.Owner, bytes int) {
	g := b.grown[sandbox]
	b.grown[sandbox] = growth{g.rows + 1, g.bytes + bytes}
	b.grownOf[owner] += bytes
}

// trimHistory removes commands of sandboxes that have too many, and output of
// those and of owners that have too much: of a sandbox at the first command that
// this process writes, then when enough has come.
func (l *ledger) trimHistory(ctx context.Context, tx *sql.Tx, b *batch) error {
	if len(l.kept) > 10_000 {
		clear(l.kept)
	}
	for id, g := range b.grown {
		before, seen := l.kept[id]
		g.rows += before.rows
		g.bytes += before.bytes
		if seen && g.rows < historySlack && g.bytes < historySandbox/historyPart {
			l.kept[id] = g
			continue
		}
		if _, err := tx.ExecContext(ctx, `delete from commands where sandbox = ?1 and id <= (select id from commands where sandbox = ?1 order by id desc limit 1 offset ?2)`, id, historyRows); err != nil {
			return err
		}
		if err := dropOutput(ctx, tx, historySandbox, "sandbox = ?", id); err != nil {
			return err
		}
		l.kept[id] = growth{}
	}
	if len(l.keptOf) > 10_000 {
		clear(l.keptOf)
	}
	for o, bytes := range b.grownOf {
		if l.keptOf[o] += bytes; l.keptOf[o] < historyOwner/historyPart {
			continue
		}
		if err := dropOutput(ctx, tx, historyOwner, "app = ? and user = ?", o.App, o.User); err != nil {
			return err
		}
		delete(l.keptOf, o)
	}
	return nil
}

// dropOutput keeps the newest output of some owner's or sandbox's commands, so
// many bytes, and drops the older: the commands stay.
func dropOutput(ctx context.Context, tx *sql.Tx, most int, whose string, args ...any) error {
	// The lengths are in the heads of the rows: no output is read.
	_, err := tx.ExecContext(ctx, `update commands set stdout = ?, stderr = ?, truncated = true where id in (
		select id from (
			select c.id, length(stdout) + length(stderr) as n, sum(length(stdout) + length(stderr)) over (partition by app, user order by c.id desc) as held
			from sandboxes s join commands c on c.sandbox = s.id where `+whose+`
		) o where held > ? and n > 0)`, append(append([]any{[]byte{}, []byte{}}, args...), most)...)
	return err
}

// commandText is a command as a person would type it, not much longer than
// limit.
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

// needsQuotes reports whether a character means something to a shell.
func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
}

// tap passes what a command writes on to its writer, as fast as that takes it,
// and lets the process's ring and the history see it.
type tap struct {
	to     io.Writer // nil: nobody wants it
	ring   *ring
	stream output
	limit  int // bytes of head

	mu   sync.Mutex
	head head // guarded by mu
}

func (t *tap) Write(b []byte) (int, error) {
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

// taken returns the beginning of what was written. What is written later, which
// no driver should do, is not part of it.
func (t *tap) taken() head {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = len(t.head.buf)
	return t.head
}

// taps are those of a command's streams.
type taps struct {
	tap  [2]*tap
	keep [2]*keeper // what the caller of Run gets in Exit
}

// audience says who wants to see what a command writes to a stream that it has
// no writer for.
type audience int

const (
	callerOnly  audience = iota // who gets its Exit: the driver keeps it
	othersToo                   // others, while it runs
	othersAlone                 // nobody waits for the Exit
)

// tapped puts taps before the writers of a command.
func tapped(cmd *atoll.Cmd, r *ring, m *mask, who audience) *taps {
	t := &taps{}
	writers := [2]*io.Writer{&cmd.Stdout, &cmd.Stderr}
	one := sameWriter(cmd.Stdout, cmd.Stderr)
	for i, w := range writers {
		if *w == nil && who == othersToo {
			limit := cmd.MaxOutput
			if limit == 0 {
				limit = atoll.DefaultMaxOutput
			}
			t.keep[i] = &keeper{limit: limit}
			*w = t.keep[i]
		}
		switch {
		case *w == nil && who == callerOnly:
		case i == 1 && one:
			*w = cmd.Stdout
		default:
			t.tap[i] = &tap{to: *w, ring: r, stream: output(i), limit: historyOutput + m.slack()}
			*w = t.tap[i]
		}
	}
	if one && t.tap[0] != nil {
		t.tap[1] = &tap{} // all of it is in the other
	}
	return t
}

// sameWriter reports whether both streams go to one writer; those that can't be
// compared are two.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

// fill puts into an exit what the keepers have, and lets the ring see what the
// driver kept.
func (t *taps) fill(exit *atoll.Exit, r *ring) {
	for i, kept := range []*[]byte{&exit.Stdout, &exit.Stderr} {
		if k := t.keep[i]; k != nil {
			var cut bool
			*kept, cut = k.taken()
			exit.Truncated = exit.Truncated || cut
		} else if t.tap[i] == nil {
			r.write(output(i), *kept)
		}
	}
}

// keeper keeps what is written, up to a limit.
type keeper struct {
	limit int64

	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu
}

func (k *keeper) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(int64(len(b)), k.limit-int64(len(k.buf)))
	k.buf = append(k.buf, b[:n]...)
	k.cut = k.cut || n < int64(len(b))
	return len(b), nil
}

func (k *keeper) taken() ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf, k.cut
}
