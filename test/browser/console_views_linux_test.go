package browser_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// goTo shows a view of the sandbox made.
func (c *consoleTest) goTo(tab string) {
	c.Helper()
	c.p.Eval(`(location.hash = `+quote("#/s/"+c.find("made").ID+"/"+tab)+`, null)`, nil)
}

// newClient returns a client of the API with the rights of the console's token.
func (c *consoleTest) newClient() *client.Client { return c.newClientOf(c.secret) }

// newClientOf returns a client of the API with a token.
func (c *consoleTest) newClientOf(secret string) *client.Client {
	c.Helper()
	k, err := client.New(client.Options{Host: "http://" + c.s.address, Token: secret})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = k.Close() }) // only its idle connections
	return k
}

func (c *consoleTest) testProcesses() {
	c.goTo("processes")
	c.p.Fill(`[aria-label="Command to start in the background"]`, `echo '`+hostile+`'; exec sleep 4321`)
	c.p.Click(`text="Start"`)
	running := func() int { return strings.Count(c.output("ps -eo args"), "sleep 4321\n") }
	c.act("start a process", func() bool { return running() == 1 })
	c.p.Click(`tr:has-text("4321") >> text="output"`)
	c.p.WaitText("pre", hostile)
	c.inspect("processes")
	c.p.Click(`tr:has-text("4321") >> .danger`)
	c.p.Click(`dialog .yes`)
	c.act("kill", func() bool { return running() == 0 })
	if _, err := c.openClient("made").StartProcess(c.Context(), "", atoll.Cmd{Shell: "sleep 4322 & wait; sleep 1; true"}); err != nil {
		c.Fatal(err)
	}
	c.p.Click(`[aria-label="Tree of processes"] tr:has-text("sleep 4322") >> .danger`)
	c.p.Click(`dialog .yes`)
	c.act("kill a child", func() bool { return !strings.Contains(c.output("ps -eo args"), "sleep 4322\n") })
}

// testTerminal checks that a 24-bit colour, which xterm sets as a style attribute, is shown under the page's
// policy, and that output of a program is text.
func (c *consoleTest) testTerminal() {
	c.goTo("")
	c.p.Click(`[aria-label="Open a terminal"]`)
	waitForConnected(c.p)
	typeLine(c.p, `echo "typed$((40+2))" >typed.txt; printf '\e[38;2;255;120;0mtrue_colour\e[0m \e[4munder_score\e[0m %s\n' '`+hostile+`'`)
	c.act("type", func() bool { return c.read("typed.txt") == "typed42\n" })
	cell := func(text, of string) string {
		return `(() => { const e = [...document.querySelectorAll('.xterm-rows span')].filter((e) => e.textContent.includes('` + text + `')).pop(); return e ? getComputedStyle(e).` + of + ` : '' })()`
	}
	c.p.Wait(cell("true_colour", "color") + ` === 'rgb(255, 120, 0)'`)
	c.p.Wait(cell("under_score", "textDecorationLine") + ` === 'underline'`)
	c.inspect("terminal")
	c.testViewers()
	c.p.Click(`text="Split"`)
	c.p.Wait(`document.querySelectorAll('.panes.two .shown .badge.connected').length === 2`)
	c.p.Click(".shown:last-child .box .xterm")
	c.p.Type("echo second >second.txt")
	c.p.Press("Enter")
	c.act("type in the second terminal", func() bool { return c.read("second.txt") == "second\n" })
	c.inspect("terminals")
	c.p.Click(`text="One terminal"`)
	c.p.Wait(`document.querySelectorAll('.shown').length === 1`)
}

// testViewers checks that the page says by name who else is attached to its terminal, and that this goes when they
// have left.
func (c *consoleTest) testViewers() {
	c.Helper()
	list, err := c.openClient("made").ListTerminals(c.Context())
	if err != nil || len(list) != 1 {
		c.Fatal(list, err)
	}
	ann := c.newClientOf(c.s.createToken(atoll.Token{Name: "laptop", Scopes: []atoll.Scope{atoll.ScopeRead}}).Secret)
	ctx, leave := context.WithCancel(c.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		sb, err := ann.Sandbox(ctx, "made")
		if err == nil {
			_, _ = sb.AttachTerminal(ctx, list[0].Name, atoll.Attachment{Stdout: io.Discard, ReadOnly: true}) // it ends by leave
		}
	}()
	c.p.WaitText(".shown .viewers", "local (laptop) (watching)")
	c.inspect("viewers")
	leave()
	<-left
	c.p.Wait(`!document.querySelector('.shown .viewers')`)
}

// turns returns the turns in the sandbox made.
func (c *consoleTest) turns() []agent.Record {
	c.Helper()
	all, err := c.newClient().Turns(c.Context(), client.TurnFilter{})
	if err != nil {
		c.Fatal(err)
	}
	id := c.find("made").ID
	return slices.DeleteFunc(all, func(r agent.Record) bool { return r.Sandbox != id })
}

// hasEnded reports whether turn n of the sandbox made has ended with an outcome.
func (c *consoleTest) hasEnded(n int, o agent.Outcome) func() bool {
	return func() bool {
		all := c.turns()
		return len(all) == n && all[n-1].Result != nil && all[n-1].Result.Outcome == o
	}
}

func (c *consoleTest) testAgent() {
	c.goTo("agent")
	const field = `[aria-label="Message to the agent"]`
	c.p.Fill(field, "act now")
	c.p.Click(`text="Send"`)
	c.act("send", func() bool { return len(c.turns()) == 1 })
	c.p.WaitText(`[aria-label="Request for permission"]`, "echo done >acted.txt")
	c.p.WaitText(`[role=log]`, "I write a file. "+hostile)
	c.inspect("approval")
	c.makePicture("agent")
	if c.read("acted.txt") != "" {
		c.Error("the agent acted before it was allowed to")
	}
	c.p.Eval(`(location.hash = '#/', null)`, nil)
	c.p.WaitText(`[data-id="`+c.find("made").ID+`"]`, "scripted: waits for approval")
	c.goTo("agent")
	c.p.Click(`text="Allow once"`)
	c.act("allow", func() bool { return c.read("acted.txt") == "done\n" })
	c.act("the end of a turn", c.hasEnded(1, agent.OK))
	c.p.WaitText(`[role=log]`, "120 tokens in, 30 out")
	c.p.Click(`summary:has-text("Thinking")`)
	c.p.Click(`summary:has-text("echo done")`)
	c.p.WaitText(`[role=log]`, "wrote 5 bytes "+hostile)
	c.inspect("conversation")
	c.p.Fill(field, "wait for me")
	c.p.Click(`text="Send"`)
	c.p.WaitText(`[role=log]`, "I wait until I am interrupted.")
	c.p.Fill(field, "said meanwhile")
	c.p.Click(`text="Send without interrupting"`) // this agent reads nothing while it works: it is the next turn
	c.act("send without interrupting", func() bool { all := c.turns(); return len(all) == 3 && all[2].State == "queued" })
	c.p.Click(`text="Interrupt"`)
	c.act("interrupt", c.hasEnded(3, agent.OK))
	c.p.WaitText(`[role=log]`, "Read: said meanwhile")
	c.p.Fill(field, "wait again")
	c.p.Click(`text="Send"`)
	c.act("send again", func() bool { return len(c.turns()) == 4 })
	c.p.Wait(`document.querySelector('[role=log]').textContent.split('I wait until I am interrupted.').length === 3`)
	c.p.Fill(field, "typed meanwhile")
	c.p.Click(`text="Interrupt and send"`)
	c.act("interrupt and send", c.hasEnded(5, agent.OK))
	if all := c.turns(); all[1].Result.Outcome != agent.Aborted || all[3].Result.Outcome != agent.Aborted || all[4].Chat != all[0].Chat {
		c.Errorf("turns ended %s and %s; chats %q and %q", all[1].Result.Outcome, all[3].Result.Outcome, all[0].Chat, all[4].Chat)
	}
	c.p.WaitText(`[role=log]`, "Read: typed meanwhile")
	c.p.Fill(field, "act again")
	c.p.Click(`text="Send"`)
	c.p.WaitText(`[aria-label="Request for permission"]`, "echo done >acted.txt")
	c.p.Click(`text="Deny"`)
	c.act("deny", c.hasEnded(6, agent.OK))
	c.p.WaitText(`[role=log]`, "I was not allowed.")
}

// prepareRepository makes a repository in the sandbox made, with a branch in a working tree of its own.
const prepareRepository = `git init -q -b main; git config user.name Eve; git config user.email eve@example.com; echo '*' >.git/info/exclude
mkdir -p src; printf 'package main\n\nfunc main() {\n\tprintln("one")\n}\n' >src/main.go; seq 1 40 >numbers.txt; git add -f src numbers.txt; git commit -qm first
git worktree add -q -b fix .worktrees/fix 2>/dev/null; : >.git/info/exclude; cd .worktrees/fix
mkdir -p .github/workflows; echo 'on: push' >.github/workflows/ci.yml; git add .; git commit -qm ci
printf 'package main\n\n// <img src=x onerror="window.hacked=1">\nfunc main() {\n\tprintln("two \342\200\256 reversed")\n}\n' >src/main.go
seq 1 40 | sed 's/20/twenty/' >numbers.txt; touch '<img src=x onerror="window.hacked=1">'; printf '#!/bin/sh\n' >pre-commit; chmod +x pre-commit; git branch '<img/src=x/onerror=hacked=1>' 2>/dev/null || :`

// checkChanges reads the changes of the branch fix over the API.
func (c *consoleTest) checkChanges() {
	c.Helper()
	sb, err := c.newClient().Sandbox(c.Context(), "made")
	if err != nil {
		c.Fatal(err)
	}
	l, err := sb.Changes(c.Context(), client.ChangesFilter{Branch: "fix"})
	if err != nil || len(l.Files) != 5 || l.Base != "main" {
		c.Fatalf("%+v, %v", l, err)
	}
	f, err := sb.ReadChange(c.Context(), &l, "src/main.go")
	if err != nil || !strings.Contains(f.Old.Text, "one") || !strings.Contains(f.New.Text, "two") {
		c.Errorf("%+v, %v", f, err)
	}
}

func (c *consoleTest) testChanges() {
	c.output(prepareRepository)
	c.goTo("changes")
	c.p.Select(`label:has-text("Branch") select`, "fix")
	c.p.WaitText(".changes-bar .facts", "since main")
	c.checkChanges()
	c.p.Click(`.files >> text="main.go"`)
	c.p.WaitText(".code .cm-content", `println("two ⟦202e⟧ reversed")`)
	c.inspect("changes")
	c.p.Click(`.cm-line:has-text("two")`)
	c.p.Fill(`[aria-label="Comment on the line"]`, "keep one "+hostile)
	c.p.Click(`text="Comment on line 5"`)
	c.p.Click(`text="Side by side"`)
	c.p.WaitText(".cm-merge-a .cm-content", `println("one")`)
	c.inspect("changes-side-by-side")
	c.makePicture("changes")
	c.p.Click(`.files >> text="ci.yml"`)
	c.p.WaitText(".shown-file", "run by CI")
	c.p.Click(`.cm-merge-b .cm-line:has-text("push")`)
	c.p.Fill(`[aria-label="Comment on the line"]`, "not on push")
	c.p.Click(`text="Comment on line 1"`)
	c.p.Resize(360, 900)
	c.p.Click(`.files >> text="numbers.txt"`)
	c.p.WaitText(".code", "unchanged lines") // unchanged lines are folded
	c.p.Resize(1440, 900)
	c.p.Select(`label:has-text("Show") select`, "uncommitted")
	c.p.Wait(`!document.querySelector('.files').textContent.includes('ci.yml')`)
	before := len(c.turns())
	c.p.Click(`text="Send 2 comments to scripted"`)
	c.act("send comments", func() bool { return len(c.turns()) == before+1 })
	c.act("the agent's turn", c.hasEnded(before+1, agent.OK))
	want := "Please address these comments on the changes on the branch fix, in /workspace/.worktrees/fix:\n\n" +
		"1. src/main.go, line 5:\n   > println(\"two ⟦202e⟧ reversed\")\n   keep one " + hostile + "\n\n2. .github/workflows/ci.yml, line 1:\n   > on: push\n   not on push\n"
	if got := c.read("prompt.txt"); got != want {
		c.Errorf("the agent got %q, want %q", got, want)
	}
}

func (c *consoleTest) testElsewhere() {
	c.p.Eval(`(location.hash = '#/workspaces', null)`, nil)
	workspaces := func() int {
		l, err := c.all.Workspaces(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		return len(l)
	}
	before := workspaces()
	c.p.Fill(`[aria-label="Name of a new workspace"]`, "shared")
	c.p.Click(`main >> text="Create"`)
	c.act("create a workspace", func() bool { return workspaces() == before+1 })
	c.p.WaitText("table", "shared")
	c.inspect("workspaces")
	c.testWorkspaceFiles()
	c.p.Click(`tr:has-text("shared") >> .danger`)
	c.p.Click(`dialog .yes`)
	c.act("remove a workspace", func() bool { return workspaces() == before })
	c.p.Eval(`(location.hash = '#/access', null)`, nil)
	c.p.Fill(`[aria-label="Name of a new token"]`, hostile)
	c.p.Click(`text="Create a token"`)
	c.p.WaitText(".toast.failed", "name") // the API refuses it; the text is shown as text
	c.p.Fill(`[aria-label="Name of a new token"]`, "observer")
	c.p.Click(`text="Create a token"`)
	c.act("create a token", func() bool {
		l, err := c.all.Tokens(c.Context())
		return err == nil && slices.ContainsFunc(l, func(t atoll.Token) bool { return t.Name == "observer" })
	})
	c.p.WaitText(".panel", "atoll_")
	c.inspect("access")
	c.show("audit", "#/audit", `document.querySelectorAll('tbody tr').length > 3`)
	c.show("drivers", "#/drivers", `document.querySelectorAll('tbody tr').length > 0`)
	c.show("turns", "#/turns", `Boolean(document.querySelector('[aria-label="Chats"] tbody tr'))`)
	c.p.Click(`[aria-label="Chats"] tr:has-text("scripted") >> a`)
	c.p.WaitText(`[aria-label="Chat"]`, "Read: ")
	c.inspect("chat")
	sb := c.openClient("made")
	if _, err := sb.StartProcess(c.Context(), "", atoll.Cmd{Args: []string{"bash", "-c", `exec -a '` + hostile + `' node -e 'require("http").createServer().listen(8123)'`}}); err != nil {
		c.Fatal(err)
	}
	c.act("listen", func() bool {
		l, err := sb.Ports(c.Context())
		return err == nil && slices.ContainsFunc(l, func(p atoll.Port) bool { return p.Port == 8123 })
	})
	c.goTo("ports")
	c.p.WaitText("table", "8123")
	c.p.WaitText("main", "Everyone who reaches")
	c.inspect("ports-open")
}

// testWorkspaceFiles writes a file of the workspace shared, which no sandbox has.
func (c *consoleTest) testWorkspaceFiles() {
	c.Helper()
	c.p.Click(`a[href="#/workspaces/shared"]`)
	c.p.Wait(`document.body.innerText.includes('This directory is empty')`)
	name := filepath.Join(c.TempDir(), hostileFile)
	if err := os.WriteFile(name, []byte("of a workspace"), 0o600); err != nil {
		c.Fatal(err)
	}
	c.p.ChooseFile(`input[type=file]`, name)
	c.act("upload to a workspace", func() bool {
		f, err := c.newClient().Files("shared").OpenFile(c.Context(), "/"+hostileFile)
		if err != nil {
			return false
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return err == nil && string(b) == "of a workspace"
	})
	c.p.WaitText(`[aria-label="Files"]`, hostileFile)
	c.inspect("workspace-files")
	c.p.Click(`text="All workspaces"`)
	c.p.WaitText("table", "shared")
}

// hostileFile is hostile as the name of a file, which has no slash.
const hostileFile = `<img src=x onerror=hacked=1>`

// testRestart restarts the server while a form and a message are half typed.
func (c *consoleTest) testRestart() {
	c.goTo("agent")
	c.p.Fill(`[aria-label="Message to the agent"]`, "half a message")
	c.p.Eval(`(location.hash = '#/', null)`, nil)
	c.p.Click(`text="Create" >> nth=0`)
	c.p.Fill(`.create input[name=name]`, "half-typed")
	c.s.stopServer()
	c.p.WaitText(".link", "disconnected")
	c.p.WaitText(".lost[role=alert]", "may be old")
	c.inspect("disconnected")
	c.s.links = true
	c.s.startServer()
	c.all = c.s.fleet.Account(fleet.LocalCaller())
	c.p.WaitText(".link", "live")
	c.p.Wait(`document.querySelector('.create input[name=name]').value === 'half-typed'`)
	if _, err := c.all.Create(c.Context(), atoll.Config{Spec: atoll.Spec{Name: "after"}}); err != nil {
		c.Fatal(err)
	}
	c.p.WaitText("table", "after")
	c.goTo("agent")
	c.p.Wait(`document.querySelector('[aria-label="Message to the agent"]')?.value === 'half a message'`)
	c.testLinks()
}

// testLinks makes and revokes a link to the port 8123, which can now be opened with one only.
func (c *consoleTest) testLinks() {
	c.Helper()
	c.goTo("ports")
	c.p.WaitText("table", "8123")
	links := func() int {
		l, err := c.newClient().RouteLinks(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		return len(l)
	}
	c.p.Select(`label:has-text("Links are valid for") select`, "1")
	c.p.Click(`tr:has-text("8123") >> text="create a link"`)
	c.act("create a link", func() bool { return links() == 1 })
	c.p.WaitText(`[aria-label="Links"]`, "ago")
	c.inspect("ports")
	c.p.Click(`[aria-label="Links"] >> text="revoke"`)
	c.p.Click(`dialog .yes`)
	c.act("revoke a link", func() bool { return links() == 0 })
}
