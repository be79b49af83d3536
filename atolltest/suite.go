// Package atolltest holds the tests that every driver must pass, and the
// benchmarks that compare drivers. A driver's own test is three lines:
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

// law is one promise of the contract, and the test of it.
type law struct {
	name string
	test func(*env)
}

// laws returns every law in the order of the contract.
func laws() []law {
	var all []law
	for _, part := range [][]law{lifeLaws, execLaws, endLaws, fileLaws, mountLaws, watchLaws, quotaLaws, optionalLaws, listenLaws, terminalLaws, terminalsLaws, signalLaws, noticeLaws} {
		all = append(all, part...)
	}
	return all
}

// refusable are the laws whose lack shows as a refusal, which they look for.
func refusable() []string {
	return []string{"MountLimitIsQuota", "FullDiskIsQuota", "ForkBombIsContained", "MemoryBombIsContained"}
}

// excusable are the laws that a driver may lack by its nature without a refusal
// that would show it; the test is then left out. No other may be lacked.
func excusable() []string {
	return []string{"WatchTellsMountChanges", "WatchSeesRestore", "TerminalInterrupts", "TerminalsSmallestWindowCounts", "StopKeepsRoot"}
}

// Run checks that a driver keeps every law of the contract. A law that it
// says it lacks, with a reason, in [atoll.Features] must be refused with
// [atoll.ErrUnsupported] where it would show; a few may be lacked though nothing
// can show it, and are skipped. Everything else must hold.
func Run(t *testing.T, d atoll.Driver) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	features, err := d.Probe(ctx)
	cancel()
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	known := make(map[string]bool)
	for _, l := range laws() {
		known[l.name] = true
		t.Run(l.name, func(t *testing.T) {
			e := &env{T: t, driver: d, features: features}
			if reason, ok := features.Lacks[l.name]; ok {
				switch {
				case slices.Contains(excusable(), l.name):
					t.Skipf("the driver declares that it lacks this law: %s", reason)
				case !slices.Contains(refusable(), l.name):
					t.Fatalf("no driver may lack this law, as this one says it does: %s", reason)
				}
				t.Logf("the driver declares that it lacks this law: %s", reason)
				e.lacks = true
			}
			l.test(e)
		})
	}
	for name, reason := range features.Lacks {
		if !known[name] {
			t.Errorf("Features.Lacks names %q, which is no law of the suite", name)
		}
		if reason == "" {
			t.Errorf("Features.Lacks[%q] gives no reason", name)
		}
	}
	leftovers(t, d)
}

// leftovers fails when sandboxes of the suite are still there.
func leftovers(t *testing.T, d atoll.Driver) {
	t.Helper()
	list, err := d.List(t.Context())
	if err != nil {
		t.Errorf("List after all: %v", err)
	}
	for _, s := range list {
		if s.Labels[label] != "" {
			t.Errorf("sandbox %s of %s is still there", s.ID, s.Labels[label])
		}
	}
}

// label marks the suite's sandboxes.
const label = "atolltest"

// patience is how long anything of the suite may take before it counts as
// hung. Nothing waits for it to pass.
const patience = 2 * time.Minute

// env is what a law's test works with.
type env struct {
	*testing.T
	driver   atoll.Driver
	features atoll.Features
	lacks    bool
}

// ctx returns a context that ends with the test, or after patience.
func (e *env) ctx() context.Context {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	e.Cleanup(cancel)
	return ctx
}

// spec returns a spec that marks the sandbox as the suite's.
func (e *env) spec() atoll.Spec {
	return atoll.Spec{Labels: map[string]string{label: e.Name()}}
}

// sandbox creates a sandbox that is destroyed when the test ends.
func (e *env) sandbox() atoll.Sandbox { return e.create(e.spec()) }

func (e *env) create(spec atoll.Spec) atoll.Sandbox {
	e.Helper()
	sb, err := e.driver.Create(e.ctx(), spec)
	if err != nil {
		e.Fatalf("Create: %v", err)
	}
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

// exec runs a command that must not fail to run.
func (e *env) exec(sb atoll.Sandbox, cmd atoll.Cmd) atoll.Exit {
	e.Helper()
	exit, err := sb.Exec(e.ctx(), cmd)
	if err != nil {
		e.Fatalf("Exec %s: %v (stderr %q)", show(cmd), err, exit.Stderr)
	}
	return exit
}

// sh runs shell text that must succeed and returns its output.
func (e *env) sh(sb atoll.Sandbox, text string) string {
	e.Helper()
	exit := e.exec(sb, atoll.Cmd{Shell: text})
	if exit.Code != 0 {
		e.Fatalf("%s: exit status %d, stderr %q", show(atoll.Cmd{Shell: text}), exit.Code, exit.Stderr)
	}
	return string(exit.Stdout)
}

func show(cmd atoll.Cmd) string {
	s := cmd.Shell
	if s == "" {
		s = fmt.Sprintf("%q", cmd.Args)
	}
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}

// want fails unless err matches target.
func (e *env) want(err, target error, what string) {
	e.Helper()
	if !errors.Is(err, target) {
		e.Errorf("%s: got error %v, want one that is %q", what, err, target)
	}
}

// eq fails unless got is want.
func eq[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Errorf("%s: got %s, want %s", what, clip(got), clip(want))
	}
}

func clip(v any) string {
	s := fmt.Sprintf("%#v", v)
	if len(s) > 400 {
		s = fmt.Sprintf("%s… (%d characters)", s[:400], len(s))
	}
	return s
}

// soon fails when f has not returned after patience.
func (e *env) soon(what string, f func()) {
	e.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		e.Fatalf("%s hangs", what)
	}
}
