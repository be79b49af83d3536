package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// finishOnce is a program that has its result at once.
func finishOnce(_ context.Context, p script) int {
	p.printLine(fakeLine{Result: "done"})
	return 0
}

func TestAttachments(t *testing.T) {
	s := newStage(t, agent.Features{}, finishOnce)
	elsewhere := filepath.Join(s.State(), "double")
	if err := errors.Join(os.MkdirAll(elsewhere, 0o755), os.Symlink(elsewhere, filepath.Join(s.Dir(), ".attachments"))); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ä", 200) + ".txt"
	names := []string{"a.png", "a.png", "a.png", "../../etc/passwd", `C:\x\y.txt`, ".bashrc", "-rf", "", "new\nline\x1b[0m", "/", long, ".."}
	for i, n := range names {
		s.job.Turn.Prompt = append(s.job.Turn.Prompt, agent.Content{Name: n, Type: "image/png", Data: fmt.Append(nil, i)})
	}
	var got []string
	s.job.Agent = fakeAgent{plan: func(turn *agent.Turn, at agent.Environment) *agent.Plan {
		for _, c := range turn.Prompt[1:] {
			b, err := os.ReadFile(c.Path)
			rel, rerr := filepath.Rel(filepath.Join(at.Dir, ".attachments"), c.Path)
			if err != nil || rerr != nil || string(b) != string(c.Data) || !filepath.IsLocal(rel) {
				t.Errorf("%q: %q %v %v", c.Path, b, err, rerr)
			}
			got = append(got, rel)
		}
		return &agent.Plan{Args: []string{"double"}}
	}}
	s.run(t.Context(), t)
	want := []string{"a.png", "a_1.png", "a_2.png", "passwd", "y.txt", "bashrc", "rf", "file.png", "new_line_[0m", "file_1.png", strings.Repeat("ä", 58) + ".txt", "file_2.png"}
	if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", want); g != w {
		t.Errorf("names\n %s, want\n %s", g, w)
	}
	if s.job.Turn.Prompt[1].Path != "" {
		t.Error("the caller's prompt was changed")
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 && list[0].Name() != ".placed" {
		t.Errorf("files went where a link led: %v %v", list, err)
	}
	// A later turn's file with the same name is another one.
	got = nil
	s.events = nil
	s.job.Turn.Prompt = s.job.Turn.Prompt[:2]
	s.run(t.Context(), t)
	if fmt.Sprint(got) != "[a_3.png]" {
		t.Errorf("the second turn's is %v", got)
	}
}

// Each turn replaces the placed files, and removes those that it does not have; the
// agent's own files remain.
func TestPlacedFiles(t *testing.T) {
	s := newStage(t, agent.Features{}, finishOnce)
	turn := func(files map[string]string) {
		t.Helper()
		s.events = nil
		s.job.Agent = fakeAgent{plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
			p := &agent.Plan{Args: []string{"double"}}
			for name, data := range files {
				p.Files = append(p.Files, agent.File{Path: at.State + "/" + name, Data: []byte(data)})
			}
			return p
		}}
		s.run(t.Context(), t)
	}
	state := filepath.Join(s.State(), "double")
	look := func() string {
		var list []string
		err := filepath.WalkDir(state, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == ".placed" {
				return err
			}
			info, err := d.Info()
			b, rerr := os.ReadFile(name)
			list = append(list, fmt.Sprintf("%s=%s %o", strings.TrimPrefix(name, state+"/"), b, info.Mode().Perm()))
			return errors.Join(err, rerr)
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(list, ", ")
	}
	expect := func(want string) {
		t.Helper()
		if got := look(); got != want {
			t.Errorf("there is %q, want %q", got, want)
		}
	}
	turn(map[string]string{"mcp.json": "1", "skills/a/SKILL.md": "a", "skills/a/x/y": "y", "skills/b/SKILL.md": "b"})
	expect("mcp.json=1 600, skills/a/SKILL.md=a 600, skills/a/x/y=y 600, skills/b/SKILL.md=b 600")
	if err := os.WriteFile(filepath.Join(state, "session"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(state, "new.json")); err != nil {
		t.Fatal(err)
	}
	turn(map[string]string{"new.json": "2", "skills/b/SKILL.md": "bb"})
	expect("new.json=2 600, session=kept 644, skills/b/SKILL.md=bb 600")
	if _, err := os.Stat(filepath.Join(state, "skills/a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory stayed: %v", err)
	}
	// What an agent makes of the list harms nobody.
	outside := filepath.Join(s.Dir(), "precious")
	if err := os.WriteFile(outside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"[\"" + outside + "\", \"" + state + "/../../workspace/precious\", \"/\", \"\", \"" + state + "\"]", "{", "", "[1]"} {
		if err := os.WriteFile(filepath.Join(state, ".placed"), []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		turn(nil)
		if _, err := os.Stat(outside); err != nil {
			t.Fatal(err)
		}
	}
	expect("new.json=2 600, session=kept 644, skills/b/SKILL.md=bb 600")
}

// Whatever a turn leaves where things are placed, the next one goes on.
func TestPlacesThatAreTaken(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	puts := map[string]func(name string) error{
		"FIFO": func(name string) error { return exec.Command("mkfifo", name).Run() },
		"Directory": func(name string) error {
			return errors.Join(os.Mkdir(name, 0o755), os.WriteFile(filepath.Join(name, "x"), nil, 0o644))
		},
		"File": func(name string) error { return os.WriteFile(name, []byte("x"), 0o644) },
		"Link": func(name string) error { return os.Symlink("nowhere", name) },
	}
	for kind, put := range puts {
		for _, name := range []string{"double/.placed", "double/mcp.json", "double/skills", "double/skills/a", "double/skills/a/SKILL.md", "double", "bin", "bin/*", "bin/*/atoll-tool"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				s := newStage(t, agent.Features{}, finishOnce)
				files := []string{"mcp.json", "skills/a/SKILL.md"}
				s.job.Agent = fakeAgent{plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
					p := &agent.Plan{Args: []string{"double"}}
					for _, f := range files {
						p.Files = append(p.Files, agent.File{Path: at.State + "/" + f, Data: []byte("placed")})
					}
					return p
				}}
				s.job.Tools, s.job.ToolProgram = func(c net.Conn) { _ = c.Close() }, tool
				turn := func() {
					s.events = nil
					wantResult(t, s.run(t.Context(), t), agent.OK, "")
				}
				take := func() {
					at, err := filepath.Glob(filepath.Join(s.State(), name))
					if err != nil || len(at) != 1 {
						t.Fatal(at, err)
					}
					if err := errors.Join(os.RemoveAll(at[0]), put(at[0])); err != nil {
						t.Fatal(err)
					}
				}
				turn()
				take()
				turn()
				for _, f := range files {
					if b, err := os.ReadFile(filepath.Join(s.State(), "double", f)); err != nil || string(b) != "placed" {
						t.Errorf("%s: %q, %v", f, b, err)
					}
				}
				take()
				files = nil
				turn()
			})
		}
	}
}

// A session id that is no safe argument is not resumed.
func TestOddSessions(t *testing.T) {
	for session, want := range map[string]string{
		"abc-1": "abc-1", "-x": "", "--help": "", "a\x00b": "", "a\nb": "", "\x1b[0m": "", strings.Repeat("x", 5000): "", "ses_ä": "ses_ä",
	} {
		s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
			p.printLine(fakeLine{Result: "done", Session: session})
			return 0
		})
		if r := s.run(t.Context(), t); r.Session != want || r.Outcome != agent.OK {
			t.Errorf("%.20q: %q", session, r.Session)
		}
	}
}

// The command that is run has its place, its path and its tools.
func TestSurroundings(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, agent.Features{API: "openai"}, finishOnce)
	var env, dir string
	program := s.Programs["double"]
	s.Programs["double"] = func(ctx context.Context, p *agenttest.Process) int {
		env, dir = strings.Join(p.Env, "\n"), p.Dir
		return program(ctx, p)
	}
	var site agent.Environment
	s.job.Agent = fakeAgent{features: agent.Features{API: "openai"}, plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
		site = at
		return &agent.Plan{Args: []string{"double"}, Env: []string{"KEY=plan"}}
	}}
	s.job.Dir, s.job.Path = "", []string{"/opt/atoll/agents/double/bin"}
	s.job.Turn.Env = []string{"MINE=1", "KEY=turn"}
	s.job.Model = http.NotFoundHandler()
	s.job.Tools = func(c net.Conn) { _ = c.Close() }
	s.job.ToolProgram = tool
	for range 2 {
		s.events = nil
		s.run(t.Context(), t)
		info, err := os.Stat(site.Tools[0])
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Fatalf("%v %v", info, err)
		}
		if b, err := os.ReadFile(site.Tools[0]); err != nil || string(b) != "#!/bin/sh\n" {
			t.Errorf("an earlier turn's program is believed: %q, %v", b, err)
		}
		beside, err := os.ReadDir(filepath.Dir(site.Tools[0]))
		if err != nil || len(beside) != 1 {
			t.Errorf("beside it is %v, %v", beside, err)
		}
		// What the next one finds has the same size and mode, and company.
		evil := os.WriteFile(site.Tools[0], []byte("#!/bin/no\n"), 0o755)
		if err := errors.Join(evil, os.WriteFile(filepath.Join(filepath.Dir(site.Tools[0]), "git"), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if site.Dir != s.Dir() || site.State != s.State()+"/double" || site.Root || dir != s.Dir() || !strings.HasPrefix(site.Model, "http://127.0.0.1:") {
		t.Errorf("%+v, run in %s", site, dir)
	}
	bin := filepath.Dir(site.Tools[0])
	want := "MINE=1\nKEY=turn\nATOLL_TOOLS=" + site.Tools[2] + "\nPATH=/opt/atoll/agents/double/bin:" + bin + ":/usr/bin:/bin\nKEY=plan"
	if env != want || !strings.HasPrefix(bin, s.State()+"/bin/") || site.Tools[1] != "mcp" {
		t.Errorf("environment\n%s\nwant\n%s", env, want)
	}
	for _, address := range []string{strings.TrimPrefix(site.Model, "http://"), site.Tools[2]} {
		if c, err := net.Dial("tcp", address); err == nil {
			t.Errorf("%s is still there", address)
			c.Close()
		}
	}
}

// askModel does a request as an agent does, and returns its status.
func askModel(p script, base string) string {
	resp, err := http.Post(base+"/v1/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// A budget that is used up is the turn's outcome, whatever the agent makes of
// it.
func TestSpent(t *testing.T) {
	for name, c := range map[string]struct {
		answers string // of the model: "." one, "$" a refusal
		failed  bool
		asks    int
		want    agent.Outcome
	}{
		"Refused":          {".$", true, 2, agent.BudgetExceeded},
		"RefusedButFine":   {".$", false, 2, agent.BudgetExceeded},
		"RefusedAndWentOn": {"$.", false, 2, agent.OK},
		"BrokenOff":        {".!", true, 2, agent.BudgetExceeded},
		"NothingRefused":   {"..", true, 2, agent.Failed},
		"AsksOnAndOn":      {"$", false, 1000, agent.BudgetExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			var base string
			asked := 0
			s := newStage(t, agent.Features{}, func(ctx context.Context, p script) int {
				for range c.asks {
					if ctx.Err() != nil {
						return 137
					}
					askModel(p, base)
				}
				p.printLine(fakeLine{Result: "result", Failed: c.failed})
				return 0
			})
			s.job.Agent = fakeAgent{features: agent.Features{API: "anthropic"}, plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
				base = at.Model
				return &agent.Plan{Args: []string{"double"}}
			}}
			s.job.Model = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				kind := c.answers[min(asked, len(c.answers)-1)]
				asked++
				if kind == '$' {
					w.Header().Set(agent.BudgetHeader, "3 requests")
					w.WriteHeader(http.StatusForbidden)
				}
				_, _ = io.WriteString(w, "{}")
				if kind == '!' {
					w.Header().Set(agent.BudgetHeader, "3 requests")
				}
			})
			r := s.run(t.Context(), t)
			if r.Outcome != c.want || r.Outcome == agent.BudgetExceeded && r.Message != "3 requests" {
				t.Errorf("%+v, want %s", r, c.want)
			}
			if asked > 100 {
				t.Errorf("it asked %d times", asked)
			}
		})
	}
}

// The tools' side may do anything: the turn has its result.
func TestToolsThatBreak(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"Panic":  func(net.Conn) { panic("x") },
		"Closes": func(c net.Conn) { _ = c.Close() },
		"Stays":  func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	} {
		t.Run(name, func(t *testing.T) {
			tool := filepath.Join(t.TempDir(), "tool")
			if err := os.WriteFile(tool, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			var address string
			s := newStage(t, agent.Features{}, func(ctx context.Context, p script) int {
				for range 300 { // more than are let in at once
					if c, err := net.Dial("tcp", address); err == nil && name != "Stays" {
						_, _ = io.ReadAll(c)
						c.Close()
					}
				}
				return finishOnce(ctx, p)
			})
			s.job.Agent = fakeAgent{plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
				address = at.Tools[2]
				return &agent.Plan{Args: []string{"double"}}
			}}
			s.job.Tools, s.job.ToolProgram = serve, tool
			wantResult(t, s.run(t.Context(), t), agent.OK, "")
		})
	}
}
