package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// hostile is a name or text that would run a script where it was taken for HTML.
const hostile = `<img src=x onerror="window.hacked=1">`

// consoleTest is a page with the console, and the API by which its acts are verified.
type consoleTest struct {
	*testing.T
	s    *testServer
	b    *browser.Browser
	p    *browser.Page
	all  *fleet.Account
	axe  string // source of axe-core
	acts int

	inspected int    // inspections so far
	secret    string // of the console's token
}

// TestConsole walks through the views of the console and verifies each act through the API.
func TestConsole(t *testing.T) {
	b := sharedBrowser(t)
	s := newTestServer(t)
	c := &consoleTest{T: t, s: s, b: b, all: s.fleet.Account(fleet.LocalCaller())}
	c.axe = readAxe(t)
	c.secret = s.createToken(atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeAdmin, atoll.ScopeHost}}).Secret
	parent := t
	t.Cleanup(c.removeSandboxes)
	for _, step := range []struct {
		name string
		try  func()
	}{
		{"overview", c.testOverview},
		{"files", c.testFiles},
		{"network", c.testNetwork},
		{"processes", c.testProcesses},
		{"snapshots", c.testSnapshots},
		{"terminal", c.testTerminal},
		{"agent", c.testAgent},
		{"changes", c.testChanges},
		{"project", c.testProject},
		{"metrics", c.testMetrics},
		{"preview", c.testPreview},
		{"elsewhere", c.testElsewhere},
		{"admin", c.testAdmin},
		{"undo", c.testUndo},
		{"task", c.testTask},
		{"keyboard", c.testKeyboard},
		{"attacks", c.testAttacks},
		{"restart", c.testRestart},
	} {
		t.Run(step.name, func(t *testing.T) {
			c.T, s.TB = t, t
			defer func(outer *testing.T) { c.T, s.TB = outer, outer }(parent)
			c.p = b.Open(t, "http://"+s.address+"/ui/#token="+c.secret, window1440)
			defer c.p.Close()
			c.p.WaitText(".link", "live")
			step.try()
			c.checkHarmless()
		})
	}
	t.Logf("%d acts", c.acts)
}

// readAxe returns the source of axe-core.
func readAxe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(testenv.Program(t, "axe", "ATOLL_AXE"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// act counts an act and waits until the API reports its effect.
func (c *consoleTest) act(what string, done func() bool) {
	c.Helper()
	c.acts++
	for end := time.Now().Add(browser.Timeout); !done(); {
		if time.Now().After(end) {
			var text string
			c.p.Eval(`document.body.innerText`, &text)
			c.p.Screenshot("failed")
			c.Fatalf("%s: the API does not show it\n%s\n%q", what, text, c.p.ConsoleMessages())
		}
		c.p.Eval(`new Promise((done) => setTimeout(done, 50))`, nil)
	}
}

// looks are the theme and width of the two looks that an inspection may have.
var looks = []struct {
	light bool
	width int
}{{false, 1440}, {true, 360}}

// show shows a view and checks it.
func (c *consoleTest) show(name, hash string, ready string) {
	c.Helper()
	c.p.Eval(`(location.hash = `+quote(hash)+`, null)`, nil)
	c.p.Wait(ready)
	c.inspect(name)
}

// pictured are the inspections of what TestLooks shows, too: it runs axe-core, which takes longer than all else.
var pictured = []string{
	"access", "approval", "audit", "changes", "changes-side-by-side", "chat", "comparison", "create", "drivers", "events", "files", "images", "metrics", "network", "overview",
	"pools", "ports", "project", "question", "settings", "snapshots", "turns", "workspace-files", "workspaces",
}

// inspect checks what is shown: that it fits at three widths, and with axe-core in a dark and wide or a light and
// narrow window, by turns.
func (c *consoleTest) inspect(name string) {
	c.Helper()
	look := looks[c.inspected%len(looks)]
	c.inspected++
	for _, width := range []int{1440, 768, 360} {
		if slices.Contains(pictured, name) && width > 360 {
			continue
		}
		c.p.Resize(width, 900)
		if over := overflow(c.p); over > 0 {
			c.Errorf("%s at %d pixels: the page is %d pixels too wide", name, width, over)
		}
		c.p.Screenshot(fmt.Sprintf("console-%s-%d", name, width))
		if width != look.width || slices.Contains(pictured, name) {
			continue
		}
		c.setLight(look.light)
		checkAccessible(c.T, c.p, c.axe, fmt.Sprintf("%s, light: %t, %d", name, look.light, width))
		c.setLight(false)
	}
	c.p.Resize(1440, 900)
}

// overflow returns how many pixels the page is wider than its window.
func overflow(p *browser.Page) (over int) {
	p.Eval(`document.documentElement.scrollWidth - innerWidth`, &over)
	return over
}

// setLight chooses the light or the dark theme. A dialog may be in front of the button.
func (c *consoleTest) setLight(on bool) {
	c.Helper()
	look := "dark"
	if on {
		look = "light"
	}
	c.p.Eval(`(document.documentElement.dataset.look !== '`+look+`' && document.querySelector('[aria-label="Dark or light"]').click(), null)`, nil)
}

// makePicture makes a picture of docs/pictures, as $ATOLL_SCREENSHOTS/doc-NAME.png.
func (c *consoleTest) makePicture(name string) {
	c.Helper()
	c.p.Resize(1000, 560)
	c.p.Screenshot("doc-" + name)
	c.p.Resize(1440, 900)
}

// checkAccessible runs axe-core on everything but the screen of a terminal: programs choose its colors.
func checkAccessible(t testing.TB, p *browser.Page, axe, where string) {
	t.Helper()
	var there bool
	if p.Eval(`typeof window.axe === 'object'`, &there); !there {
		p.Eval(axe+`; null`, nil)
	}
	var found []string
	p.Eval(`(async () => (await axe.run({ exclude: ['.xterm-rows'] }, { resultTypes: ['violations'] })).violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 160) + ' ' + (n.failureSummary ?? '').slice(0, 300))))()`, &found)
	for _, f := range found {
		t.Errorf("%s: %s", where, f)
	}
}

// checkHarmless fails if a script of a sandbox ran, or the page violated its policy.
func (c *consoleTest) checkHarmless() {
	c.Helper()
	var hacked bool
	c.p.Eval(`Boolean(window.hacked)`, &hacked)
	if hacked {
		c.Error("a text of a sandbox ran as a script")
	}
	for _, m := range c.p.ConsoleMessages() {
		if strings.Contains(m, "Content Security Policy") || strings.Contains(m, "Error:") {
			c.Errorf("console message: %s", m)
		}
	}
}

func (c *consoleTest) list() []atoll.Info {
	c.Helper()
	l, err := c.all.List(context.WithoutCancel(c.Context()), fleet.Filter{})
	if err != nil {
		c.Fatal(err)
	}
	return l
}

// window1440 is the window of most steps.
var window1440 = browser.Window{Width: 1440, Height: 900}

// removeSandboxes removes the sandboxes that the walk made.
func (c *consoleTest) removeSandboxes() { removeAll(c, c.s) }

// removeAll removes all sandboxes of a server but its own.
func removeAll(t testing.TB, s *testServer) {
	all := s.fleet.Account(fleet.LocalCaller())
	list, err := all.List(context.WithoutCancel(t.Context()), fleet.Filter{})
	if err != nil {
		t.Error(err)
	}
	for _, i := range list {
		if i.ID == s.sandboxID {
			continue
		}
		sb, err := all.Open(context.WithoutCancel(t.Context()), i.ID)
		if err == nil {
			err = sb.Destroy(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// find returns the sandbox of a name; the zero value: there is none.
func (c *consoleTest) find(name string) atoll.Info {
	for _, i := range c.list() {
		if i.Name == name {
			return i
		}
	}
	return atoll.Info{}
}

func (c *consoleTest) isState(name string, s atoll.State) func() bool {
	return func() bool { return c.find(name).State == s }
}

func (c *consoleTest) testOverview() {
	c.p.WaitText("table", "web")
	c.p.Click(`text="Create" >> nth=0`)
	c.p.Fill(`.create input[name=name]`, "made")
	c.p.Select(`.create label:has-text("Network") select`, "nat")
	c.p.Select(`.create label:has-text("Lifetime") select`, "persistent")
	c.p.Fill(`.create label:has-text("Memory") input`, "512")
	c.p.WaitText(".command", "atoll create --name made --memory 512m --network nat --policy persistent")
	c.inspect("create")
	c.p.Click(`text="Create the sandbox"`)
	c.act("create", c.isState("made", atoll.Running))
	if cfg := c.find("made").Config; cfg.Limits.Memory != 512<<20 || cfg.Lifecycle.Policy != atoll.PolicyPersistent {
		c.Errorf("it was created with %+v, %+v", cfg.Limits, cfg.Lifecycle)
	}
	c.p.WaitText("table", "made")
	for _, a := range []struct {
		act  string
		want atoll.State
	}{{"pause", atoll.Paused}, {"resume", atoll.Running}, {"stop", atoll.Stopped}, {"start", atoll.Running}} {
		c.p.Click(`[aria-label="` + a.act + ` made"]`)
		c.act(a.act, c.isState("made", a.want))
	}
	c.p.Fill(`[aria-label="Search sandboxes"]`, "mad")
	c.p.Wait(`document.querySelectorAll('tbody tr').length === 1`)
	c.p.Fill(`[aria-label="Search sandboxes"]`, "")
	other, err := c.all.Create(c.Context(), atoll.Config{Spec: atoll.Spec{Name: "other", Labels: map[string]string{"branch": hostile}}})
	if err != nil {
		c.Fatal(err)
	}
	c.p.WaitText("table", "other") // without a reload
	c.p.Wait(`[...document.querySelectorAll('td.number')].some((e) => / (i?B|.iB)$/.test(e.textContent))`)
	c.inspect("overview")
	for _, name := range []string{"made", "other"} {
		c.p.Click(`[aria-label="Choose ` + name + `"]`)
	}
	c.p.Click(`.bulk >> text="stop 2"`)
	c.inspect("question")
	c.p.Click(`dialog .yes`)
	c.act("bulk stop", func() bool { return c.isState("made", atoll.Stopped)() && c.isState("other", atoll.Stopped)() })
	c.p.Click(`.bulk >> text="start 2"`)
	c.act("bulk start", func() bool { return c.isState("made", atoll.Running)() && c.isState("other", atoll.Running)() })
	c.p.Click(`[aria-label="remove other"]`)
	c.p.Click(`dialog .yes`)
	c.act("remove", func() bool { return c.find("other").ID == "" })
	c.p.Wait(`!document.querySelector('[data-id="` + other.ID() + `"]')`)
}

// read returns a file of the sandbox made; "" if there is none, or while the sandbox is being restored.
func (c *consoleTest) read(name string) string {
	c.Helper()
	text, err := c.exec("cat " + name + " 2>/dev/null")
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrState) {
		c.Fatal(err)
	}
	return text
}

// output returns the output of a command in the sandbox made.
func (c *consoleTest) output(shell string) string {
	c.Helper()
	text, err := c.exec(shell)
	if err != nil {
		c.Fatal(err)
	}
	return text
}

func (c *consoleTest) exec(shell string) (string, error) {
	sb, err := c.all.Open(c.Context(), "made")
	if err != nil {
		return "", err
	}
	exit, err := sb.Exec(c.Context(), atoll.Cmd{Shell: shell})
	return string(exit.Stdout), err
}

func (c *consoleTest) testFiles() {
	c.output(`printf '<script>window.hacked=1</script>' >page.html; touch '` + hostile + `'; mkdir -p sub`)
	at := "#/s/" + c.find("made").ID + "/"
	c.p.Eval(`(location.hash = `+quote(at+"files")+`, null)`, nil)
	c.p.Wait(`Boolean(document.querySelector('[aria-label="Directory"]'))`)
	c.p.Fill(`[aria-label="Directory"]`, strings.TrimSpace(c.output("pwd")))
	c.p.Click(`text="Go"`)
	c.p.WaitText("table", "page.html")
	c.inspect("files")
	c.p.Click(`button.name:has-text("page.html")`)
	c.p.Wait(`document.querySelector('.editor textarea')?.value === '<script>window.hacked=1</script>'`)
	c.testSearch()
	c.p.Fill(`.editor textarea`, "changed <b>text</b>\n")
	c.inspect("editor")
	c.p.Click(`.editor >> text="Save"`)
	c.act("save", func() bool { return c.read("page.html") == "changed <b>text</b>\n" })
	c.p.Click(`.editor >> text="Close"`)
	name := filepath.Join(c.TempDir(), "up.txt")
	if err := os.WriteFile(name, []byte("uploaded"), 0o600); err != nil {
		c.Fatal(err)
	}
	c.p.ChooseFile(`input[type=file]`, name)
	c.act("upload", func() bool { return c.read("up.txt") == "uploaded" })
	c.p.Click(`[aria-label="remove up.txt"]`)
	c.p.Click(`dialog .yes`)
	c.act("remove a file", func() bool { return c.read("up.txt") == "" })
}

func (c *consoleTest) testNetwork() {
	at := "#/s/" + c.find("made").ID + "/"
	c.show("network", at+"network", `Boolean(document.querySelector('.rules'))`)
	rules := func() atoll.Network { return c.find("made").Config.Network }
	c.p.Fill(`[aria-label="Host or URL"]`, "example.com:443")
	c.p.Click(`.rules >> text="Allow"`)
	c.act("allow", func() bool { return slices.Contains(rules().Allow, "example.com:443") })
	c.p.Wait(`document.querySelector('[aria-label="Host or URL"]').value === ''`)
	c.p.Fill(`[aria-label="Host or URL"]`, "bad.example.com")
	c.p.Click(`.rules >> text="Deny"`)
	c.act("deny", func() bool { return slices.Contains(rules().Deny, "bad.example.com") })
	c.p.Click(`[aria-label="Remove the rule example.com:443"]`)
	c.act("remove a rule", func() bool { return !slices.Contains(rules().Allow, "example.com:443") })
	c.testDenied(rules)
}

// testDenied allows hosts that the sandbox could not reach, for ten minutes and always.
func (c *consoleTest) testDenied(rules func() atoll.Network) {
	c.Helper()
	c.output(`for port in 81 82; do node -e "require('net').connect($port, '10.9.9.9').on('error', () => {})"; done`)
	c.p.Eval(`(location.hash = '#/', null)`, nil)
	for _, host := range []string{"10.9.9.9:81", "10.9.9.9:82"} {
		c.p.WaitText(`[data-id="`+c.find("made").ID+`"]`, host)
	}
	c.inspect("denied")
	c.makePicture("sandboxes")
	c.p.Click(`[aria-label="Allow once: 10.9.9.9:81"]`)
	c.act("allow once", func() bool {
		left := time.Until(rules().Until["10.9.9.9:81"])
		return slices.Contains(rules().Allow, "10.9.9.9:81") && left > 0 && left <= 10*time.Minute
	})
	c.p.Click(`[aria-label="Allow always: 10.9.9.9:82"]`)
	c.act("allow always", func() bool { return slices.Contains(rules().Allow, "10.9.9.9:82") })
	if end, ok := rules().Until["10.9.9.9:82"]; ok {
		c.Errorf("it is allowed until %s", end)
	}
	c.p.Wait(`!document.querySelector('.chip.denied')`)
	c.goTo("network")
	c.p.WaitText(".rules", "until")
	c.inspect("network-rules")
}

func (c *consoleTest) testSnapshots() {
	at := "#/s/" + c.find("made").ID + "/"
	c.p.Eval(`(location.hash = `+quote(at+"snapshots")+`, null)`, nil)
	c.p.Fill(`[aria-label="Name of the snapshot"]`, "before")
	c.p.Click(`text="Take a snapshot"`)
	c.act("snapshot", func() bool {
		sb, err := c.all.Open(c.Context(), "made")
		if err != nil {
			c.Fatal(err)
		}
		l, err := atoll.Snapshots(c.Context(), sb)
		return err == nil && len(l) == 1
	})
	c.p.WaitText("table", "before")
	c.inspect("snapshots")
	c.output("echo later >page.html; touch '" + hostile + "'; rm -r sub")
	c.p.Click(`[aria-label="Comparison"] button`)
	c.act("compare", func() bool {
		d, err := c.openClient("made").CompareSnapshots(c.Context(), "before", "")
		return err == nil && slices.ContainsFunc(d.Files, func(f atoll.FileDifference) bool {
			return f.Status == atoll.FileModified && path.Base(f.Path) == "page.html"
		})
	})
	c.p.WaitText(`[aria-label="Files that differ"]`, "/page.html")
	c.p.WaitText(`[aria-label="Files that differ"]`, "/sub/hay.txt")
	c.inspect("comparison")
	c.p.Click(`text="restore"`)
	c.p.Click(`dialog .yes`)
	c.act("restore", func() bool { return c.read("page.html") == "changed <b>text</b>\n" })
	before := len(c.list())
	c.p.Click(`text="fork"`)
	c.act("fork", func() bool { return len(c.list()) == before+1 })
	c.p.Click(`tr:has-text("before") >> .danger`)
	c.p.Click(`dialog .yes`)
	c.act("remove a snapshot", func() bool {
		sb, err := c.all.Open(c.Context(), "made")
		if err != nil {
			c.Fatal(err)
		}
		l, err := atoll.Snapshots(c.Context(), sb)
		return err == nil && len(l) == 0
	})
	c.show("events", at+"events", `document.body.innerText.includes('sandbox.restored')`)
}

// openClient returns a sandbox of the API's client with the rights of the console's token.
func (c *consoleTest) openClient(name string) *client.Sandbox {
	c.Helper()
	sb, err := c.newClient().Sandbox(c.Context(), name)
	if err != nil {
		c.Fatal(err)
	}
	return sb
}

// quote returns a string as a JavaScript literal.
func quote(s string) string {
	b, _ := json.Marshal(s) // never fails
	return string(b)
}
