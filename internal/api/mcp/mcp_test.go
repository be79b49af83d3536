package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api/mcp"
)

// fleet is one of the virtual driver, in which names are unique.
type fleet struct {
	d  *virtual.Driver
	mu sync.Mutex
}

func (f *fleet) Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg.Name != "" {
		if _, err := f.Open(ctx, cfg.Name); err == nil {
			return nil, &atoll.Error{Op: "create", ID: cfg.Name, Err: atoll.ErrExists}
		}
	}
	return f.d.Create(ctx, cfg.Spec)
}

func (f *fleet) Open(ctx context.Context, key string) (atoll.Sandbox, error) {
	all, err := f.d.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range all {
		if st.Name == key || st.ID == key {
			return f.d.Open(ctx, st.ID)
		}
	}
	return nil, &atoll.Error{Op: "open", ID: key, Err: atoll.ErrNotFound}
}

func (f *fleet) List(ctx context.Context) ([]atoll.Info, error) {
	all, err := f.d.List(ctx)
	var list []atoll.Info
	for _, st := range all {
		list = append(list, atoll.Info{Status: st})
	}
	return list, err
}

// connect returns a session of a client with the tools.
func connect(t *testing.T, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	ct, st := sdk.NewInMemoryTransports()
	o := mcp.Options{Version: "test"}
	o.Config.Network.Allow = []string{"api.example.com"}
	server := mcp.New(&fleet{d: virtual.New()}, o)
	ss, err := server.Connect(t.Context(), st, nil)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), ct, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cs.Close(); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		_ = ss.Wait() // it ends because the client has closed
	})
	return cs
}

type args = map[string]any

// call returns the text of an answer and whether it is an error.
func call(t *testing.T, cs *sdk.ClientSession, tool string, a args) (string, bool) {
	t.Helper()
	r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, a, err)
	}
	if len(r.Content) != 1 {
		t.Fatalf("%s %v: %d contents", tool, a, len(r.Content))
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

func TestTools(t *testing.T) {
	cs := connect(t, nil)
	big := strings.Repeat("0123456789\n", 20_000)
	for _, c := range []struct {
		law   string
		tool  string
		args  args
		want  string // the whole answer; or, ending in "…", its beginning; or, beginning with "…", a part
		fails bool
	}{
		{"ExecAnswersWithOutput", "exec", args{"command": "echo hi | tr a-z A-Z"}, "HI\n", false},
		{"ExecTakesArgs", "exec", args{"args": []string{"printf", "[%s]", "", "a b"}}, "[][a b]\n", false},
		{"ExecTellsStatus", "exec", args{"command": "echo out; echo err >&2; exit 3"}, "out\n[stderr]\nerr\n[exit status 3]", false},
		{"ExecTellsSilence", "exec", args{"command": "true"}, "[exit status 0, no output]", false},
		{"ExecReadsStdin", "exec", args{"command": "wc -c", "stdin": "four"}, "4\n", false},
		{"ExecHasADeadline", "exec", args{"command": "echo begun; sleep 60", "timeout_seconds": 0.2}, "begun\n\n…", true},
		{"ExecNeedsOneOfBoth", "exec", args{"command": "a", "args": []string{"b"}}, "…only one of", true},
		{"ExecRefusesOddTimes", "exec", args{"command": "a", "timeout_seconds": -1}, "…timeout_seconds -1", true},
		{"ExecIsBounded", "exec", args{"command": "seq 100000; echo the end"}, "…bytes left out …", false},
		{"ExecKeepsTheEnd", "exec", args{"command": "seq 100000; echo the end"}, "…the end", false},
		{"ExecMakesBytesText", "exec", args{"command": `printf '\377\376ok'`}, "�ok\n", false},
		{"UnknownSandboxIsToldHow", "exec", args{"command": "true", "sandbox": "nope"}, "…list_sandboxes lists", true},

		{"WriteMakesDirectories", "write_file", args{"path": "/a/b/c.txt", "content": "one\ntwo\nthree\n"}, "Wrote 14 bytes to /a/b/c.txt.", false},
		{"ReadReturnsIt", "read_file", args{"path": "/a/b/c.txt"}, "one\ntwo\nthree\n", false},
		{"ReadReturnsLines", "read_file", args{"path": "/a/b/c.txt", "start_line": 2, "end_line": 2}, "two\n", false},
		{"ReadBeyondTheEnd", "read_file", args{"path": "/a/b/c.txt", "start_line": 9}, "…has 3 lines", true},
		{"ReadBackwards", "read_file", args{"path": "/a/b/c.txt", "start_line": 3, "end_line": 2}, "…lines 3 to 2", true},
		{"ReadNeedsAbsolute", "read_file", args{"path": "c.txt"}, "…must be absolute", true},
		{"ReadMissing", "read_file", args{"path": "/nope"}, "…No such file", true},
		{"ReadDirectory", "read_file", args{"path": "/a"}, "…", true},
		{"EditReplacesOnce", "edit_file", args{"path": "/a/b/c.txt", "old_text": "two", "new_text": "2"}, "Replaced 1 occurrence(s) in /a/b/c.txt.", false},
		{"EditWasKept", "exec", args{"command": "cat /a/b/c.txt"}, "one\n2\nthree\n", false},
		{"EditMissingTextChangesNothing", "edit_file", args{"path": "/a/b/c.txt", "old_text": "four", "new_text": "4"}, "…does not occur in the file", true},
		{"EditAmbiguousNamesLines", "edit_file", args{"path": "/a/b/c.txt", "old_text": "e\n", "new_text": "E\n"}, "…old_text occurs 2 times, first in lines 1, 3", true},
		{"EditAll", "edit_file", args{"path": "/a/b/c.txt", "old_text": "e\n", "new_text": "E\n", "replace_all": true}, "Replaced 2 occurrence(s) in /a/b/c.txt.", false},
		{"EditEmptyText", "edit_file", args{"path": "/a/b/c.txt", "old_text": "", "new_text": "x"}, "…old_text is empty", true},
		{"ExecutableFile", "write_file", args{"path": "/run.sh", "content": "#!/bin/sh\necho ran\n", "executable": true}, "Wrote…", false},
		{"ExecutableRuns", "exec", args{"args": []string{"/run.sh"}}, "ran\n", false},
		{"ModeSurvivesAnEdit", "edit_file", args{"path": "/run.sh", "old_text": "ran", "new_text": "again"}, "Replaced…", false},
		{"EditedRuns", "exec", args{"args": []string{"/run.sh"}}, "again\n", false},
		{"BigFileIsCut", "write_file", args{"path": "/big", "content": big}, "Wrote…", false},
		{"BigFileSaysWhere", "read_file", args{"path": "/big"}, "…cut in line 2728: ask for start_line 2728", false},
		{"BigFileGoesOn", "read_file", args{"path": "/big", "start_line": 20_000}, "0123456789\n", false},
		{"BinaryIsRefused", "exec", args{"command": `printf 'a\0b' > /bin.dat`}, "[exit…", false},
		{"BinaryIsRefusedWithAHint", "read_file", args{"path": "/bin.dat"}, "…no text file", true},
		{"EmptyFile", "exec", args{"command": ": > /empty; mkdir /emptydir"}, "[exit…", false},
		{"EmptyFileSaysSo", "read_file", args{"path": "/empty"}, "[the file is empty]", false},
		{"EmptyDirectorySaysSo", "list_files", args{"path": "/emptydir"}, "[the directory is empty]", false},
		{"ListShowsKinds", "list_files", args{"path": "/a", "depth": 3}, "dir           -  b\nfile         12  b/c.txt\n", false},
		{"HostileNamesAreOneLine", "exec", args{"command": `mkdir /h; touch "/h/$(printf 'a\nb\033[31m')"; ls /h | wc -l`}, "2\n", false},
		{"HostileNamesAreQuoted", "list_files", args{"path": "/h"}, `file          0  "a\nb\x1b[31m"` + "\n", false},
		{"ListDepthIsBounded", "list_files", args{"path": "/", "depth": 99}, "…depth 99", true},
		{"ListIsBounded", "exec", args{"command": "mkdir /many; cd /many; seq 2000 | xargs touch"}, "[exit…", false},
		{"ListSaysThereIsMore", "list_files", args{"path": "/many"}, "…more than 1000 entries", false},

		{"Snapshot", "snapshot", args{"name": "before"}, "Snapshot before…", false},
		{"SnapshotNameTaken", "snapshot", args{"name": "before"}, "…already exists", true},
		{"Damage", "exec", args{"command": "rm -r /a"}, "[exit…", false},
		{"Restore", "restore", args{"snapshot": "before"}, "The sandbox was restored to before.", false},
		{"RestoredIsThere", "exec", args{"command": "cat /a/b/c.txt"}, "onE\n2\nthreE\n", false},
		{"RestoreUnknown", "restore", args{"snapshot": "never"}, "…not found", true},
		{"ListSnapshots", "list_snapshots", args{}, "before: made…", false},
		{"Fork", "fork", args{"name": "twin"}, `Sandbox twin is running. Pass "sandbox": "twin" to work in it.`, false},
		{"ForkHasTheFiles", "exec", args{"command": "cat /a/b/c.txt; echo changed > /a/b/c.txt", "sandbox": "twin"}, "onE\n2\nthreE\n", false},
		{"ForkIsApart", "read_file", args{"path": "/a/b/c.txt"}, "onE\n2\nthreE\n", false},
		{"List", "list_sandboxes", args{}, "mcp: running…", false},
		{"ListMarksTheDefault", "list_sandboxes", args{}, "…(your default)", false},
		{"Create", "create_sandbox", args{"name": "other", "env": map[string]string{"X": "y"}}, "Sandbox other is running…", false},
		{"CreateSetsEnv", "exec", args{"command": "echo $X", "sandbox": "other"}, "y\n", false},
		{"CreateTaken", "create_sandbox", args{"name": "other"}, "…already exists", true},
		{"CreateBadName", "create_sandbox", args{"name": "No Good"}, "…invalid", true},
		{"CreateReachesWhatIsAllowed", "create_sandbox", args{"name": "net", "allow": []string{"api.example.com"}}, "Sandbox net is running…", false},
		{"CreateReachesNoMore", "create_sandbox", args{"allow": []string{"api.example.com", "127.0.0.1:5432"}}, `…allow "127.0.0.1:5432": your user has allowed only api.example.com`, true},
		{"Destroy", "destroy_sandbox", args{"sandbox": "other"}, "Sandbox other was destroyed.", false},
		{"DestroyedIsGone", "exec", args{"command": "true", "sandbox": "other"}, "…not found", true},
	} {
		if !t.Run(c.law, func(t *testing.T) {
			got, failed := call(t, cs, c.tool, c.args)
			ok := got == c.want
			if part, cut := strings.CutPrefix(c.want, "…"); cut {
				ok = strings.Contains(got, part)
			} else if begin, cut := strings.CutSuffix(c.want, "…"); cut {
				ok = strings.HasPrefix(got, begin)
			}
			if !ok || failed != c.fails {
				t.Errorf("%s %v: error %v, text\n%.500s\nwant error %v, text\n%s", c.tool, c.args, failed, got, c.fails, c.want)
			}
			if len(got) > 40_000 {
				t.Errorf("the answer has %d bytes", len(got))
			}
		}) {
			t.FailNow() // the next cases go on from this one
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	told := make(chan string, 100)
	cs := connect(t, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		told <- r.Params.Message
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	callCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		p := &sdk.CallToolParams{Name: "exec", Arguments: args{"command": "echo working; while :; do date +%s%N > /beat; sleep .05; done"}}
		p.SetProgressToken("tok")
		_, err := cs.CallTool(callCtx, p)
		ended <- err
	}()
	select {
	case msg := <-told:
		if !strings.Contains(msg, "8 bytes of output: working") {
			t.Errorf("progress is %q", msg)
		}
	case <-ctx.Done():
		t.Fatal("no progress was told")
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: %v", err)
	}
	// The command is gone: its heart-beat stands still. A second exec waits for
	// nothing, so it may come before the end of the first; ask until it holds.
	script := `for i in $(seq 50); do a=$(cat /beat); sleep .2; [ "$a" = "$(cat /beat)" ] && echo still && exit; done; echo beats`
	if text, _ := call(t, cs, "exec", args{"command": script}); text != "still\n" {
		t.Errorf("after the call was cancelled: %s", text)
	}
}

func TestDefaultSandboxIsMadeOnce(t *testing.T) {
	cs := connect(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if text, failed := call(t, cs, "write_file", args{"path": fmt.Sprintf("/f%d", i), "content": "x"}); failed {
				t.Error(text)
			}
		})
	}
	wg.Wait()
	if text, _ := call(t, cs, "exec", args{"command": "ls /f? | wc -l"}); text != "8\n" {
		t.Errorf("the default sandbox has %s of the 8 files", text)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	cs := connect(t, nil)
	r, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tools) != 12 {
		t.Errorf("%d tools", len(r.Tools))
	}
	for _, tool := range r.Tools {
		if len(tool.Description) < 30 || tool.Annotations == nil || tool.Annotations.Title == "" {
			t.Errorf("%s is not described", tool.Name)
		}
		props, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		for name, p := range props {
			if d, _ := p.(map[string]any)["description"].(string); d == "" {
				t.Errorf("%s: argument %s is not described", tool.Name, name)
			}
		}
	}
	if cs.InitializeResult().Instructions == "" {
		t.Error("no instructions")
	}
}
