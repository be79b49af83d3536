//go:build unix

package secretref

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func TestParseProviders(t *testing.T) {
	for _, c := range []struct{ name, text, reason string }{
		{"Command", `{"v": {"command": ["vault", "kv", "get", "{name}"], "allow": ["a/*"], "timeout": "5s", "cache": "1m", "owners": ["acme/*", "acme/ann"]}}`, ""},
		{"Directory", `{"v": {"directory": "/run/secrets", "allow": ["*"]}}`, ""},
		{"Environment", `{"v": {"environment": true, "allow": ["API_*"]}}`, ""},
		{"NoKind", `{"v": {"allow": ["*"]}}`, "exactly one of"},
		{"TwoKinds", `{"v": {"directory": "/a", "environment": true, "allow": ["*"]}}`, "exactly one of"},
		{"NoAllow", `{"v": {"directory": "/a"}}`, "allow must have patterns"},
		{"BadPattern", `{"v": {"directory": "/a", "allow": ["["]}}`, "must be a pattern"},
		{"ProgramFromTheName", `{"v": {"command": ["/bin/{name}", "{name}"], "allow": ["*"]}}`, "the program must be fixed"},
		{"CommandWithoutName", `{"v": {"command": ["cat"], "allow": ["*"]}}`, "an argument must contain {name}"},
		{"Relative", `{"v": {"directory": "a", "allow": ["*"]}}`, "must be an absolute path"},
		{"BadOwner", `{"v": {"directory": "/a", "allow": ["*"], "owners": ["*/*"]}}`, "must be APP/USER or APP/*"},
		{"LongTimeout", `{"v": {"directory": "/a", "allow": ["*"], "timeout": "1h"}}`, "timeout must be at most"},
		{"Unknown", `{"v": {"directory": "/a", "allows": ["*"]}}`, `unknown field "allows"`},
		{"Null", `{"v": null}`, "must have command, directory or environment"},
		{"BadName", `{"a b": {"directory": "/a", "allow": ["*"]}}`, "a b: "},
		{"NoObject", `["v"]`, "must be {NAME: {…}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseProviders(c.text)
			if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("error %v, want %q", err, c.reason)
			}
		})
	}
}

// TestFilesStayInTheDirectory asks for what is outside of it, or no file.
func TestFilesStayInTheDirectory(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, []byte("outside"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "good"), []byte("inside\r\n"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "empty"), []byte("\n"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "large"), make([]byte, MaxValue+1), 0o600))
	must(os.WriteFile(filepath.Join(dir, "nul"), []byte("a\x00b"), 0o600))
	must(os.Symlink(outside, filepath.Join(dir, "link")))
	must(os.Symlink(filepath.Dir(outside), filepath.Join(dir, "dir")))
	must(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	r := &Resolver{Providers: map[string]*Provider{"f": {Directory: dir, Allow: []string{"*", "*/*"}}}}
	if v, err := r.Resolve(t.Context(), "secret://f/good"); err != nil || v != "inside" {
		t.Errorf("%q, %v", v, err)
	}
	for _, name := range []string{"link", "dir/shadow", "dir", "pipe", "empty", "large", "nul", "missing", "..", "../shadow", "a//b", "/etc/passwd", ""} {
		if v, err := r.Resolve(t.Context(), "secret://f/"+name); err == nil || v != "" {
			t.Errorf("%s: %q", name, v)
		} else if strings.Contains(err.Error(), "outside") {
			t.Errorf("%s: error %v shows the value", name, err)
		}
	}
}

// TestValuesAreUsedAgain checks when a provider is asked again, and which values stay known.
func TestValuesAreUsedAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	now := time.Now()
	r := &Resolver{Now: func() time.Time { return now }, Providers: map[string]*Provider{"f": {Directory: dir, Allow: []string{"a"}, Cache: Duration(time.Minute)}}}
	const ref = "secret://f/a"
	expect := func(want string) {
		t.Helper()
		if v, err := r.Resolve(t.Context(), ref); (err == nil) != (want != "") || v != want {
			t.Fatalf("%q, %v, want %q", v, err, want)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("")
	write("first")
	expect("") // the error, for a while
	now = now.Add(failureCache)
	expect("first")
	write("second")
	expect("first")
	now = now.Add(time.Minute)
	expect("second")
	if known := r.Known(ref); len(known) != 2 || known[0] != "first" {
		t.Errorf("known: %q", known)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	expect("") // not the old value
	if known := r.Known(ref); len(known) != 2 {
		t.Errorf("known: %q", known)
	}
	r.Providers["f"].Allow = []string{"b"}
	if _, err := r.Resolve(t.Context(), ref); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a name that is not allowed any more: %v", err)
	}
}

// TestSlowProvider checks that a provider has a deadline, and a caller that ends waits no longer.
func TestSlowProvider(t *testing.T) {
	r := &Resolver{Providers: map[string]*Provider{"s": {Command: []string{"sh", "-c", "exec cat /dev/zero >/dev/null", "{name}"}, Allow: []string{"*"}, Timeout: Duration(200 * time.Millisecond)}}}
	if _, err := r.Resolve(t.Context(), "secret://s/a"); !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("error %v, want a timeout", err)
	}
	t.Setenv("ATOLL_TEST_SECRET", "value")
	r.Providers["e"] = &Provider{Environment: true, Allow: []string{"ATOLL_TEST_*"}}
	if v, err := r.Resolve(t.Context(), "secret://e/ATOLL_TEST_SECRET"); err != nil || v != "value" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := r.Resolve(t.Context(), "secret://e/PATH"); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a variable that is not allowed: %v", err)
	}
}

// TestFailureOfSlowProviderIsUsedAgain fails after longer than a failure is used again: those that have waited for it must
// not start the command one after the other.
func TestFailureOfSlowProviderIsUsedAgain(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	start := time.Now()
	count := func() int {
		b, err := os.ReadFile(calls)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return len(b)
	}
	r := &Resolver{
		Now:       func() time.Time { return start.Add(time.Duration(count()) * 2 * failureCache) }, // a call takes so long
		Providers: map[string]*Provider{"s": {Command: []string{"sh", "-c", `printf x >>"$1"; exit 1`, "{name}", calls}, Allow: []string{"*"}}},
	}
	for range 3 {
		if _, err := r.Resolve(t.Context(), "secret://s/a"); err == nil {
			t.Fatal("no error")
		}
	}
	if n := count(); n != 1 {
		t.Errorf("the command ran %d times, want once", n)
	}
}

// TestFewNamesAtOnce checks that a provider is asked for few names at once, also if an owner refers to many.
func TestFewNamesAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("value"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Provider{Directory: dir, Allow: []string{"*"}}
	r := &Resolver{Providers: map[string]*Provider{"f": p, "other": {Directory: dir, Allow: []string{"*"}}}}
	for range maxAsked {
		r.slotsOf(p) <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := r.Resolve(ctx, "secret://f/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v: want to wait for another name", v, err)
	}
	if v, err := r.Resolve(t.Context(), "secret://other/a"); err != nil || v != "value" {
		t.Errorf("another provider: %q, %v", v, err)
	}
	<-r.slotsOf(p)
	for range 2 {
		if v, err := r.Resolve(t.Context(), "secret://f/a"); err != nil || v != "value" {
			t.Errorf("%q, %v", v, err)
		}
	}
}
