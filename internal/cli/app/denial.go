package app

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// maxDenials limits the denied connections that are printed for one command.
const maxDenials = 20

// denials prints the connections that the rules of a sandbox deny while a command runs in it.
type denials struct {
	print func(format string, args ...any)
	sb    atoll.Sandbox
	allow string // what a rule is written behind to allow a connection, such as "atoll network allow box"
	since time.Time

	mu   sync.Mutex
	seen map[string]bool // guarded by mu; reasons that were printed
}

// FollowDenials prints each denial as it happens until stop is called. stop also prints those of
// which no notice arrived. A sandbox without notices or connections has none. name is that of the
// sandbox, as commands take it.
func FollowDenials(ctx context.Context, sb atoll.Sandbox, name string, print func(format string, args ...any)) (stop func()) {
	d := newDenials(sb, "atoll network allow "+quoteArgument(name), time.Now(), print)
	ctx, cancel := context.WithCancel(ctx)
	var once sync.Once
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = atoll.Notices(ctx, sb, func(n atoll.Notice) error { // stop prints what it misses
			switch n.Kind {
			case atoll.NoticeReady:
				once.Do(func() { close(ready) })
			case atoll.NoticeDenied:
				d.printOnce(n.Message, n.Suggestion)
			}
			return nil
		})
	}()
	select {
	case <-ready:
	case <-done:
	}
	return func() {
		cancel()
		<-done
		d.printMissed(context.WithoutCancel(ctx))
	}
}

// PrintDenials prints the connections that the rules of a sandbox have denied since a time. allow is
// what a rule is written behind to allow a connection, such as "--allow".
func PrintDenials(ctx context.Context, sb atoll.Sandbox, allow string, since time.Time, print func(format string, args ...any)) {
	newDenials(sb, allow, since, print).printMissed(ctx)
}

func newDenials(sb atoll.Sandbox, allow string, since time.Time, print func(format string, args ...any)) *denials {
	return &denials{print: print, sb: sb, allow: allow, since: since, seen: make(map[string]bool)}
}

// printMissed prints the recorded denials that were not printed yet.
func (d *denials) printMissed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := atoll.Connections(ctx, d.sb)
	if err != nil {
		return // the command's own result counts
	}
	for _, c := range list {
		if !c.Allowed && !c.Time.Before(d.since) {
			d.printOnce(c.Reason, c.Suggestion)
		}
	}
}

// printOnce prints a reason, and the command that allows the connection, unless it was printed already.
func (d *denials) printOnce(reason, rule string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reason = output.Clean(strings.Join(strings.Fields(reason), " ")); reason == "" || d.seen[reason] || len(d.seen) == maxDenials {
		return
	}
	d.seen[reason] = true
	d.print("  network: %s", reason)
	if rule != "" {
		d.print("  allow it: %s %s", d.allow, quoteArgument(output.Clean(rule)))
	}
}

// quoteArgument quotes a text for a shell, if it needs that.
func quoteArgument(text string) string {
	safe := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("-._:/=@%+,", r)
	}
	if text != "" && strings.TrimLeftFunc(text, safe) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
