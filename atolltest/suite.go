// Package atolltest contains the conformance tests that every driver must
// pass, and the benchmarks that compare drivers. A driver's own test is three
// lines:
//
//	func TestDriver(t *testing.T) { atolltest.Run(t, &mine.Driver{}) }
package atolltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// law is one promise of the driver contract, and its test.
type law struct {
	name string
	test func(*env)
}

// allLaws returns every law, in the order of the contract.
func allLaws() []law {
	var all []law
	for _, part := range [][]law{lifecycleLaws, execLaws, deadlineLaws, fileLaws, mountLaws, watchLaws, quotaLaws, abilityLaws, listenLaws, terminalLaws, terminalsLaws, signalLaws, noticeLaws} {
		all = append(all, part...)
	}
	return all
}

// refusableLaws returns the laws that a driver may lack if it refuses the
// request with ErrUnsupported; their tests check the refusal.
func refusableLaws() []string {
	return []string{"MountLimitIsQuota", "FullDiskIsQuota", "ForkBombIsContained", "MemoryBombIsContained"}
}

// excusableLaws returns the laws that a driver may lack although no refusal
// can show it; their tests are then skipped. No driver may lack other laws.
func excusableLaws() []string {
	return []string{"WatchReportsMountChanges", "WatchSeesRestore", "TerminalInterrupts", "TerminalsSmallestWindowCounts", "StopKeepsRoot"}
}

// Run checks that a driver keeps every law of the contract. A driver may
// declare in [atoll.Features].Lacks, with a reason, that it lacks a law: for
// some laws Run then requires a refusal with [atoll.ErrUnsupported], a few
// others it skips, and for the rest it fails.
func Run(t *testing.T, d atoll.Driver) { RunLaws(t, d, Laws()...) }

// Laws returns the names of all laws, in the order in which Run checks them.
func Laws() []string {
	var names []string
	for _, l := range allLaws() {
		names = append(names, l.name)
	}
	return names
}

// RunLaws checks the named laws as [Run] checks all. It is for a second
// configuration of a driver, such as another kind of connection, where Run has
// checked the first. A name that is not a law fails the test.
func RunLaws(t *testing.T, d atoll.Driver, names ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	features, err := d.Probe(ctx)
	cancel()
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	laws := make(map[string]law)
	for _, l := range allLaws() {
		laws[l.name] = l
	}
	shared := &sharedSandbox{}
	for _, name := range names {
		l, ok := laws[name]
		if !ok {
			t.Errorf("%q is not a law of the suite", name)
			continue
		}
		t.Run(name, func(t *testing.T) { l.check(&env{T: t, driver: d, features: features, shared: shared}) })
	}
	shared.destroy(t)
	for name, reason := range features.Lacks {
		if _, ok := laws[name]; !ok {
			t.Errorf("Features.Lacks names %q, which is not a law of the suite", name)
		}
		if reason == "" {
			t.Errorf("Features.Lacks[%q] gives no reason", name)
		}
	}
	checkLeftovers(t, d)
}

// check runs the law's test, or skips it where a driver may lack the law and
// declares that it does.
func (l law) check(e *env) {
	if reason, ok := e.features.Lacks[l.name]; ok {
		switch {
		case slices.Contains(excusableLaws(), l.name):
			e.Skipf("the driver declares that it lacks this law: %s", reason)
		case !slices.Contains(refusableLaws(), l.name):
			e.Fatalf("the driver declares that it lacks this law, which no driver may lack: %s", reason)
		}
		e.Logf("the driver declares that it lacks this law: %s", reason)
		e.lacks = true
	}
	l.test(e)
}

// checkLeftovers fails if sandboxes of the suite still exist.
func checkLeftovers(t *testing.T, d atoll.Driver) {
	t.Helper()
	list, err := d.List(t.Context())
	if err != nil {
		t.Errorf("List after the suite: %v", err)
	}
	for _, s := range list {
		if s.Labels[label] != "" {
			t.Errorf("sandbox %s of %s still exists", s.ID, s.Labels[label])
		}
	}
}

// label is the label key that marks the suite's sandboxes.
const label = "atolltest"

// hangTimeout is how long a step of the suite may take before it counts as
// hung. A suite that passes never waits for it.
const hangTimeout = 2 * time.Minute

// env is the environment of a law's test.
type env struct {
	*testing.T
	driver   atoll.Driver
	features atoll.Features
	lacks    bool // the driver declares that it lacks the law
	shared   *sharedSandbox
}

// sharedSandbox is a sandbox that laws use one after the other: creating one for each
// takes most of a suite's time. The zero value has none yet.
type sharedSandbox struct{ sb atoll.Sandbox }

// destroy destroys the sandbox, if there is one; the next law that asks gets a new one.
func (s *sharedSandbox) destroy(t *testing.T) {
	t.Helper()
	if s.sb == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	if err := s.sb.Destroy(ctx); err != nil {
		t.Errorf("Destroy of the shared sandbox: %v", err)
	}
	s.sb = nil
}

// filesOfLaws names what the laws in a shared sandbox make, in /tmp: by name, since
// some drivers under test have no root of their own.
const filesOfLaws = "*.sock a atomic beat big f file garbage go in k law long.sh missing never nine odd one out plain shared x"

// useSandbox returns a sandbox of the default spec that other laws have used and will
// use: for laws that only run commands and make files that filesOfLaws names. Their files
// are removed after the law; where the law failed, the sandbox is destroyed.
func (e *env) useSandbox() atoll.Sandbox {
	e.Helper()
	if e.shared.sb == nil {
		sb, err := e.driver.Create(e.newContext(), atoll.Spec{Labels: map[string]string{label: "shared"}})
		if err != nil {
			e.Fatalf("Create: %v", err)
		}
		e.shared.sb = sb
	}
	e.Cleanup(func() {
		if e.Failed() {
			e.shared.destroy(e.T)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		defer cancel()
		exit, err := e.shared.sb.Exec(ctx, atoll.Cmd{Shell: "cd /tmp && rm -rf " + filesOfLaws})
		if err != nil || exit.Code != 0 {
			e.Errorf("clearing the shared sandbox: exit status %d, %v, stderr %q", exit.Code, err, exit.Stderr)
			e.shared.destroy(e.T)
		}
	})
	return e.shared.sb
}

// newContext returns a context that ends with the test, or after hangTimeout.
func (e *env) newContext() context.Context {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), hangTimeout)
	e.Cleanup(cancel)
	return ctx
}

// newSpec returns a spec that marks the sandbox as one of the suite.
func (e *env) newSpec() atoll.Spec {
	return atoll.Spec{Labels: map[string]string{label: e.Name()}}
}

// newSandbox creates a sandbox that is destroyed when the test ends.
func (e *env) newSandbox() atoll.Sandbox { return e.create(e.newSpec()) }

func (e *env) create(spec atoll.Spec) atoll.Sandbox {
	e.Helper()
	sb, err := e.driver.Create(e.newContext(), spec)
	if err != nil {
		e.Fatalf("Create: %v", err)
	}
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

// exec runs a command and fails if Exec returns an error.
func (e *env) exec(sb atoll.Sandbox, cmd atoll.Cmd) atoll.Exit {
	e.Helper()
	exit, err := sb.Exec(e.newContext(), cmd)
	if err != nil {
		e.Fatalf("Exec %s: %v (stderr %q)", formatCommand(cmd), err, exit.Stderr)
	}
	return exit
}

// runShell runs shell text that must succeed and returns its output.
func (e *env) runShell(sb atoll.Sandbox, text string) string {
	e.Helper()
	exit := e.exec(sb, atoll.Cmd{Shell: text})
	if exit.Code != 0 {
		e.Fatalf("%s: exit status %d, stderr %q", formatCommand(atoll.Cmd{Shell: text}), exit.Code, exit.Stderr)
	}
	return string(exit.Stdout)
}

func formatCommand(cmd atoll.Cmd) string {
	s := cmd.Shell
	if s == "" {
		s = fmt.Sprintf("%q", cmd.Args)
	}
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}

// wantError fails unless err matches target.
func (e *env) wantError(err, target error, what string) {
	e.Helper()
	if !errors.Is(err, target) {
		e.Errorf("%s: got error %v, want one that matches %q", what, err, target)
	}
}

// wantEqual fails unless got equals want.
func wantEqual[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Errorf("%s: got %s, want %s", what, formatValue(got), formatValue(want))
	}
}

func formatValue(v any) string {
	s := fmt.Sprintf("%#v", v)
	if len(s) > 400 {
		s = fmt.Sprintf("%s… (%d characters)", s[:400], len(s))
	}
	return s
}

// mustFinish fails if f has not returned after hangTimeout.
func (e *env) mustFinish(what string, f func()) {
	e.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(hangTimeout):
		e.Fatalf("%s hangs", what)
	}
}
