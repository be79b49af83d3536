package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func readHistory(t testing.TB, sb *Sandbox) []atoll.Result {
	t.Helper()
	list, err := sb.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestHistory(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home})
	sb := newSandbox(t, f, atoll.Config{})
	if list := readHistory(t, sb); list == nil || len(list) != 0 {
		t.Errorf("of a new sandbox: %+v", list)
	}
	ctx := minuteContext(t)
	var out bytes.Buffer
	both := io.MultiWriter(&out)
	before := time.Now()
	for _, cmd := range []atoll.Cmd{
		{Args: []string{"echo", "a b", "", "it's"}},
		{Shell: "echo out; echo err >&2; exit 3", Session: true},
		{Shell: "echo out; echo err >&2", Stdout: &out},
		{Shell: "echo out; echo err >&2", Stdout: both, Stderr: both},
		{Args: []string{"nosuchprogram"}},
		{Shell: "cat; while :; do :; done", Stdin: strings.NewReader("x"), Timeout: 50 * time.Millisecond},
		{Shell: "echo too much", MaxOutput: 3},
	} {
		if _, err := sb.Exec(ctx, cmd); err != nil && !errors.Is(err, atoll.ErrTimeout) {
			t.Fatal(err)
		}
	}
	mustStart(t, sb, "p", atoll.Cmd{Shell: "echo detached"})
	if _, err := sb.Attach(ctx, "p", Attachment{}); err != nil {
		t.Fatal(err)
	}
	list := readHistory(t, sb)
	for i, want := range []atoll.Result{
		{Command: `echo 'a b' '' 'it'\''s'`, Stdout: "a b  it's\n", Success: true},
		{Command: "echo out; echo err >&2; exit 3", Stdout: "out\n", Stderr: "err\n", ExitCode: 3},
		{Command: "echo out; echo err >&2", Stdout: "out\n", Stderr: "err\n", Success: true},
		{Command: "echo out; echo err >&2", Stdout: "out\nerr\n", Success: true},
		{Command: "nosuchprogram", Stderr: "nosuchprogram: command not found\n`help' lists the available commands\n", ExitCode: 127},
		{Command: "cat; while :; do :; done", Stdout: "x", ExitCode: 137, Error: "timed out"},
		{Command: "echo too much", Stdout: "too", Success: true, Truncated: true},
		{Command: "echo detached", Stdout: "detached\n", Success: true},
	} {
		got := list[i]
		if got.Time.Before(before) || got.Duration <= 0 || !strings.Contains(got.Error, want.Error) || (got.Error == "") != (want.Error == "") {
			t.Errorf("%d: %+v", i, got)
		}
		got.Time, got.Duration, got.Error = time.Time{}, 0, want.Error
		if want.Error != "" {
			got.ExitCode = want.ExitCode // the exit code of a killed command depends on the driver
		}
		if got != want {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
	if len(list) != 8 {
		t.Errorf("%d commands", len(list))
	}
	closeFleet(t, f)
	again, err := openFleet(t, Options{Home: home}).Account(LocalCaller()).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(readHistory(t, again)); n != 8 {
		t.Errorf("%d commands are remembered after a restart", n)
	}
	if viaRoot, err := atoll.History(t.Context(), again); err != nil || len(viaRoot) != 8 {
		t.Errorf("as a Historian: %d, %v", len(viaRoot), err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb, other := newSandbox(t, f, atoll.Config{}), newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	if _, err := other.Exec(ctx, atoll.Cmd{Shell: "echo other"}); err != nil {
		t.Fatal(err)
	}
	for i := range maxHistoryRows + historySlack + 20 {
		if _, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	list := readHistory(t, sb)
	if len(list) != maxHistoryRows || list[len(list)-1].Command != fmt.Sprint("echo ", maxHistoryRows+historySlack+19) {
		t.Errorf("%d commands, the last is %q", len(list), list[len(list)-1].Command)
	}
	var n int
	if err := f.registry.DB.QueryRow("select count(*) from commands where sandbox = ?", sb.ID()).Scan(&n); err != nil || n > maxHistoryRows+historySlack {
		t.Errorf("%d rows, %v", n, err)
	}
	if list := readHistory(t, other); len(list) != 1 || list[0].Stdout != "other\n" {
		t.Errorf("another sandbox's: %+v", list)
	}
	for _, cmd := range []atoll.Cmd{{Shell: "seq 1 100000; seq 1 100000 >&2"}, {Shell: "seq 1 100000; seq 1 100000 >&2", Stdout: io.Discard, Stderr: writerFunc(func(b []byte) (int, error) { return len(b), nil })}, {Args: []string{"true", strings.Repeat("é", 200_000)}}} {
		if _, err := sb.Exec(ctx, cmd); err != nil {
			t.Fatal(err)
		}
	}
	list = readHistory(t, sb)
	for _, r := range list[len(list)-3 : len(list)-1] {
		if len(r.Stdout) != maxHistoryOutput || len(r.Stderr) != maxHistoryOutput || !r.Truncated || !strings.HasPrefix(r.Stdout, "1\n2\n") {
			t.Errorf("of much output %d and %d bytes are kept, truncated %v", len(r.Stdout), len(r.Stderr), r.Truncated)
		}
	}
	if r := list[len(list)-1]; len(r.Command) > maxHistoryCommand || len(r.Command) < maxHistoryCommand-4 || strings.ContainsRune(r.Command, '\uFFFD') {
		t.Errorf("of a long command %d bytes are kept", len(r.Command))
	}
}

// TestHistoryHidesSecrets runs commands that print secrets in many forms, and checks
// that nothing stored contains them.
func TestHistoryHidesSecrets(t *testing.T) {
	home := t.TempDir()
	f := openMemoryFleet(t, home, nil)
	cfg := atoll.Config{Secrets: map[string]string{"PW": "hunter22-and-more"}}
	cfg.Env = []string{"GITHUB_TOKEN=ghp_0123456789"}
	sb := newSandbox(t, f, cfg)
	secrets := []string{"hunter22-and-more", "ghp_0123456789", "sesame-open-99", "aHVudGVyMjItYW5kLW1vcmU"}
	ctx := minuteContext(t)
	filler := strings.Repeat("x", maxHistoryOutput-5)
	for _, cmd := range []atoll.Cmd{
		{Args: []string{"echo", "hunter22-and-more", "ghp_0123456789"}},
		{Shell: "for c in h u n t e r 2 2 - a n d - m o r e; do printf $c; done; echo", Stdout: writerFunc(func(b []byte) (int, error) { return len(b), nil })},
		{Shell: "printf %s hunter22-and-more | base64; echo $KEY >&2", Env: []string{"KEY=sesame-open-99"}},
		{Shell: "cat", Stdin: strings.NewReader(filler + "hunter22-and-more" + filler)},
		{Shell: "cat", Stdin: strings.NewReader(filler + "hunter22-and-more" + filler), Stdout: writerFunc(func(b []byte) (int, error) { return len(b), nil })},
		{Shell: "echo hunter22-and-more", MaxOutput: 9},
		{Args: []string{"true", strings.Repeat("x", maxHistoryCommand-8) + "hunter22-and-more"}},
		{Args: []string{"echo"}, Dir: "/hunter22-and-more"},
		{Args: []string{"echo"}, User: "hunter22-and-more"},
	} {
		exit, err := sb.Exec(ctx, cmd)
		if err != nil && strings.Contains(err.Error(), "hunter22-and-more") {
			t.Errorf("the error %q shows a secret", err)
		}
		if cmd.Dir != "" && !errors.Is(err, atoll.ErrNotFound) || cmd.User != "" && !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("%v is not what it was", err)
		}
		if len(cmd.Args) == 3 && cmd.Args[0] == "echo" && string(exit.Stdout) != "hunter22-and-more ghp_0123456789\n" {
			t.Errorf("the caller gets %q", exit.Stdout)
		}
	}
	mustStart(t, sb, "p", atoll.Cmd{Shell: "echo hunter22-and-more; exit 3"})
	if out, _, _, _ := attachToEnd(t, sb, "p", Attachment{}); out != "hunter22-and-more\n" {
		t.Errorf("an attached client gets %q", out)
	}
	list, err := sb.Processes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%+v %+v", list, readHistory(t, sb))
	if len(list) != 10 || !strings.Contains(all, "echo *** ***") {
		t.Errorf("%d processes: %.300s", len(list), all)
	}
	if err := f.Account(LocalCaller()).Events(ctx, event.Filter{}, false, func(e atoll.Event) error { all += fmt.Sprintf("%+v", e); return nil }); err != nil {
		t.Fatal(err)
	}
	audit, err := f.Account(LocalCaller()).Audit(ctx, AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	all += fmt.Sprintf("%+v", audit)
	for _, s := range append(secrets, "hunter22-", "hunter22") {
		if i := strings.Index(all, s); i >= 0 {
			t.Errorf("%q is kept: …%s…", s, all[max(0, i-100):min(len(all), i+100)])
		}
	}
}

// recordLargeOutput records commands that wrote 64 KiB of 0x01 to both streams, which
// is six times as long in JSON. It waits for the registry, because entries that wait
// too long are dropped.
func recordLargeOutput(t *testing.T, f *Fleet, sb *Sandbox, n int) {
	t.Helper()
	out := bytes.Repeat([]byte{1}, maxHistoryOutput)
	for i := range n {
		if i%32 == 0 {
			if err := f.recorder.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.recorder.add(&commandRecord{
			mask: sb.secretMask(nil), sandbox: sb.ID(), owner: sb.b.cachedRow().owner, process: "p", command: "flood",
			output: [2]streamHead{{buf: out}, {buf: out}}, begun: time.Now(),
		})
	}
}

// countOutput returns how many bytes of output match in the registry, and how many
// rows.
func countOutput(t *testing.T, f *Fleet, where string, args ...any) (bytes, rows int) {
	t.Helper()
	if err := f.recorder.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.registry.DB.QueryRow("select coalesce(sum(length(stdout) + length(stderr)), 0), count(*) from commands where "+where, args...).Scan(&bytes, &rows); err != nil {
		t.Fatal(err)
	}
	return bytes, rows
}

// TestHistoryResponseIsBounded requests the history of commands with much output, which
// once returned 583 MB of JSON.
func TestHistoryResponseIsBounded(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	recordLargeOutput(t, f, sb, 200)
	if bytes, rows := countOutput(t, f, "sandbox = ?", sb.ID()); rows != 200 || bytes > maxHistoryPerSandbox+maxHistoryPerSandbox/historyPart || bytes < maxHistoryPerSandbox/2 {
		t.Errorf("%d bytes in %d rows are kept", bytes, rows)
	}
	list := readHistory(t, sb)
	sum := 0
	for i, r := range list {
		sum += len(r.Stdout) + len(r.Stderr)
		if r.Command != "flood" || r.Truncated != (r.Stdout == "") || i > 0 && r.Stdout == "" && list[i-1].Stdout != "" {
			t.Errorf("%d: %d bytes, truncated %v", i, len(r.Stdout), r.Truncated)
		}
	}
	if len(list) != 200 || sum > maxHistoryAnswer || sum < maxHistoryAnswer/2 || list[199].Stdout == "" {
		t.Errorf("%d commands with %d bytes", len(list), sum)
	}
	for limit, want := range map[int]int{0: defaultHistoryLimit, 7: 7, maxHistoryRows: 200} {
		if list, err := sb.Commands(t.Context(), HistoryFilter{Limit: limit}); err != nil || len(list) != want {
			t.Errorf("limit %d: %d commands, %v", limit, len(list), err)
		}
	}
	for _, limit := range []int{-1, maxHistoryRows + 1} {
		if _, err := sb.Commands(t.Context(), HistoryFilter{Limit: limit}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// TestHistoryOfOwnerIsBounded fills more sandboxes than the output limit of an owner
// allows.
func TestHistoryOfOwnerIsBounded(t *testing.T) {
	testenv.Logic(t)
	f := openMemoryFleet(t, "", nil)
	for range maxHistoryPerOwner/maxHistoryPerSandbox + 2 {
		recordLargeOutput(t, f, newSandbox(t, f, atoll.Config{}), maxHistoryPerSandbox/(2*maxHistoryOutput))
	}
	if bytes, rows := countOutput(t, f, "true"); bytes > maxHistoryPerOwner+maxHistoryPerOwner/historyPart || bytes < maxHistoryPerOwner/2 || rows != 10*128 {
		t.Errorf("%d bytes in %d rows are kept", bytes, rows)
	}
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bytes, _ := countOutput(t, f, "true"); bytes > maxHistoryPerOwner {
		t.Errorf("%d bytes are kept after trimming", bytes)
	}
}

// TestInternalCommands checks that commands of atoll itself are only listed when they are asked for, and that many of
// them leave those of users in the history.
func TestInternalCommands(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	run := func(cmd atoll.Cmd) {
		t.Helper()
		if _, err := sb.Exec(ctx, cmd); err != nil {
			t.Fatal(err)
		}
	}
	run(atoll.Cmd{Shell: "echo mine"})
	for range maxHistoryOwn + 2*historySlack + 1 {
		run(atoll.Cmd{Shell: ":", Internal: true})
	}
	if list := readHistory(t, sb); len(list) != 1 || list[0].Command != "echo mine" || list[0].Internal {
		t.Errorf("history: %d commands, %+v", len(list), list[:min(len(list), 2)])
	}
	all, err := sb.Commands(ctx, HistoryFilter{Limit: maxHistoryRows, Internal: true})
	if err != nil || !all[0].Internal && all[0].Command != "echo mine" || len(all) < maxHistoryOwn || len(all) > maxHistoryOwn+historySlack+1 || !all[len(all)-1].Internal {
		t.Errorf("with those of atoll: %d, %v", len(all), err)
	}
	list, err := sb.Processes(ctx)
	if err != nil || len(list) > 1 {
		t.Errorf("processes: %+v, %v", list, err)
	}
	if list, err = sb.AllProcesses(ctx); err != nil || len(list) < 2 || !list[len(list)-1].Internal {
		t.Errorf("all processes: %d, %v", len(list), err)
	}
	if p, err := sb.Process(ctx, list[len(list)-1].ID); err != nil || !p.Internal {
		t.Errorf("by its id: %+v, %v", p, err)
	}
}
