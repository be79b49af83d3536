package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/suggest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// updating reports that golden files are to be rewritten; the flag is that of
// the tests of agents.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// helped runs the tests with the helpers built.
type helped struct{ m *testing.M }

func (h helped) Run() int { return enginetest.Main(h.m, helpertest.Main) }

func TestMain(m *testing.M) {
	testscript.Main(helped{m}, map[string]func(){"atoll": runFull, launch.RemoteHelper: runFull, "enter": enter, "sweep": sweep, "background": startBackground})
}

// runFull is atoll with all commands.
func runFull() { os.Exit(program.Run()) }

func TestScripts(t *testing.T) {
	dir := "testdata/script"
	if testenv.All() && os.Getenv("ATOLL_LOGIC") == "passed" { // a share of them, in sealed sandboxes
		share := filepath.Join(t.TempDir(), "script")
		copyShare(t, dir, share)
		dir = share
	}
	runScripts(t, dir)
}

// copyShare copies one in three of the scripts in a directory to a new one, others on
// each day, or all if $ATOLL_SCRIPTS is "all".
func copyShare(t *testing.T, from, to string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(from, "*.txtar"))
	err = errors.Join(err, os.MkdirAll(to, 0o755))
	for _, name := range testenv.Sample(t, scripts, (len(scripts)+2)/3, "ATOLL_SCRIPTS") {
		text, rerr := os.ReadFile(name)
		err = errors.Join(err, rerr, os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runScripts runs the scripts of a directory, each with a home of its own.
func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "me")
			e.Setenv("HOME", home)
			e.Setenv("ATOLL_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("ATOLL_SYSTEM_CONFIG", filepath.Join(e.WorkDir, "etc", "atoll.yaml")) // not this machine's
			if testenv.All() {
				e.Setenv("ATOLL_HELPERS", os.Getenv("ATOLL_HELPERS"))
			} else {
				e.Setenv("ATOLL_VIRTUAL_SEAL", "false") // there are no helpers
			}
			e.Defer(func() { leaveNoServer(filepath.Join(e.WorkDir, "home")) })
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus,
			"ready":  awaitLine,
			"until":  untilOutput,

			"kill-server": killServer,
			"certificate": writeCertificate,
			"packages":    startPackages,
			"document":    writeDocument("quick"),
		},
		UpdateScripts: updating(),
	})
}

// wantStatus runs atoll and checks its exit status: status 3 run -- sh -c 'exit 3'.
func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec("atoll", args[1:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// writeCertificate makes a certificate for 127.0.0.1, called build, that nobody knows:
// certificate CERT KEY.
func writeCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "build"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ts.Check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

const patience = testenv.Patience // with what a test waits for

// poll waits until a condition holds, and reports whether it did within patience.
func poll(holds func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return testenv.Poll(ctx, holds)
}

// awaitLine waits until a file that a command in the background writes matches
// a pattern, and puts the pattern's first group into a variable:
// ready log 'address=(http://\S+)' HOST.
func awaitLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: ready FILE PATTERN [VARIABLE]")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var b []byte
	var m [][]byte
	if !poll(func() bool { b, err = os.ReadFile(ts.MkAbs(args[0])); m = re.FindSubmatch(b); return m != nil }) {
		ts.Fatalf("%s never matched %q: %s %v", args[0], args[1], b, err)
	}
	if len(args) == 3 {
		ts.Setenv(args[2], string(m[1]))
	}
}

// untilOutput runs atoll again and again until its stdout matches:
// until 'signal TERM' ps --all box.
func untilOutput(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARG...")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	out := ""
	if !poll(func() bool {
		_ = ts.Exec("atoll", args[1:]...) // its output counts
		out = ts.ReadFile("stdout")
		return re.MatchString(out)
	}) {
		ts.Fatalf("it never printed %q: %s%s", args[0], out, ts.ReadFile("stderr"))
	}
}

// TestHelpIsGolden holds what --help says, of every command.
func TestHelpIsGolden(t *testing.T) {
	a := &app.App{}
	root := cli.NewRootCommand(a)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var all bytes.Buffer
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		all.WriteString("== " + c.CommandPath() + "\n")
		c.SetOut(&all)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n")
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root)
	name := filepath.Join("testdata", "help.golden")
	if updating() {
		if err := os.WriteFile(name, all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("help has changed (run with -update if that is wanted):\n%s", diff)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"box", "builder", "calm-otter"}
	for in, want := range map[string]string{"bux": "box", "bulder": "builder", "calm-oter": "calm-otter", "zzz": "", "": ""} {
		got := suggest.Hint(in, known)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
