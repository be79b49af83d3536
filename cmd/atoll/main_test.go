package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"atoll": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ATOLL_HOME", filepath.Join(e.WorkDir, "home"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus,
		},
		UpdateScripts: *update,
	})
}

// wantStatus runs atoll and checks its exit status: status 3 run -- sh -c 'exit 3'.
func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var out, errs bytes.Buffer
	for _, name := range []string{"ATOLL_HOME", "ATOLL_DRIVER"} {
		ts.Check(os.Setenv(name, ts.Getenv(name)))
	}
	got := run(context.Background(), args[1:], streams{strings.NewReader(""), &out, &errs})
	ts.Logf("%s%s", out.String(), errs.String())
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// TestHelpIsGolden holds what --help says, of every command.
func TestHelpIsGolden(t *testing.T) {
	a := &app{}
	root := a.root()
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
	if *update {
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

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "64k": 64 << 10, "64KiB": 64 << 10, "1.5m": 3 << 19, "10 MB": 10 << 20, "2g": 2 << 30} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "0", "1x", "1e400", "99999999999t"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"box", "builder", "calm-otter"}
	for in, want := range map[string]string{"bux": "box", "bulder": "builder", "calm-oter": "calm-otter", "zzz": "", "": ""} {
		got := didYouMean(in, known)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
