package browser_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// TestFirefox walks through the console in Firefox. Each act is verified through the API.
func TestFirefox(t *testing.T) {
	f := browser.StartFirefox(t, 1200, 800)
	s := newTestServer(t)
	t.Cleanup(func() { removeAll(t, s) })
	all := s.fleet.Account(fleet.LocalCaller())
	secret := s.createToken(atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeAdmin, atoll.ScopeHost}}).Secret
	act := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(browser.Timeout); !done(); {
			if time.Now().After(end) {
				var text string
				f.Eval(`document.body.innerText`, &text)
				t.Fatalf("%s: the API does not show it\n%s\n%q", what, text, f.Messages())
			}
			f.Eval(`new Promise((done) => setTimeout(done, 50))`, nil)
		}
	}
	f.Goto("http://" + s.address + "/ui/#token=" + secret)
	f.Wait(`document.querySelector('.link.live')`)
	f.Click(`.bar-top button.yes`)
	f.Fill(`.create input[name=name]`, "fox")
	f.Click(`.create button.yes`)
	find := func() atoll.Info {
		l, err := all.List(t.Context(), fleet.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return l[max(0, slices.IndexFunc(l, func(i atoll.Info) bool { return i.Name == "fox" }))]
	}
	act("create", func() bool { i := find(); return i.Name == "fox" && i.State == atoll.Running })
	sb, err := all.Open(t.Context(), "fox")
	if err != nil {
		t.Fatal(err)
	}
	output := func(shell string) string {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: shell})
		if err != nil {
			t.Fatal(err)
		}
		return string(exit.Stdout)
	}
	at := "#/s/" + find().ID + "/"
	show := func(hash, ready string) {
		t.Helper()
		f.Eval(`(location.hash = `+quote(hash)+`, null)`, nil)
		f.Wait(ready)
		f.Wait(`document.documentElement.scrollWidth <= innerWidth`)
	}
	show(at, `document.querySelector('.terminals')`)
	f.Click(`[aria-label="Open a terminal"]`)
	f.Wait(`document.querySelector('.badge.connected')`)
	f.Click(`.box .xterm`)
	f.Type("echo \"typed$((40+2))\" >typed.txt; printf '\\033[38;2;255;120;0mtrue_colour\\033[0m\\n'\n")
	act("type", func() bool { return output("cat typed.txt 2>/dev/null || :") == "typed42\n" })
	f.Wait(`[...document.querySelectorAll('.xterm-rows span')].some((e) => e.textContent.includes('true_colour') && getComputedStyle(e).color === 'rgb(255, 120, 0)')`)
	f.Screenshot("firefox-terminal")
	show(at+"processes", `document.querySelector('[aria-label="Tree of processes"]')`)
	f.Fill(`[aria-label="Command to start in the background"]`, "sleep 5678\n")
	act("start a process", func() bool { return strings.Contains(output("ps -eo args"), "sleep 5678\n") })
	show(at+"network", `document.querySelector('.rules')`)
	f.Fill(`[aria-label="Host or URL"]`, "example.org:443\n")
	act("allow", func() bool { return slices.Contains(find().Config.Network.Allow, "example.org:443") })
	show(at+"snapshots", `document.querySelector('[aria-label="Name of the snapshot"]')`)
	f.Fill(`[aria-label="Name of the snapshot"]`, "of-fox\n")
	act("snapshot", func() bool {
		l, err := sb.Snapshots(t.Context())
		return err == nil && len(l) == 1 && l[0].Name == "of-fox"
	})
	output(prepareRepository)
	show(at+"changes", `document.querySelector('.code .cm-content, .empty')`)
	f.Screenshot("firefox-changes")
	show(at+"agent", `document.querySelector('[aria-label="Message to the agent"]')`)
	f.Fill(`[aria-label="Message to the agent"]`, "say hello")
	f.Click(`.write button.yes`)
	f.Wait(`document.querySelector('[role=log]')?.textContent.includes('Read: say hello')`)
	show(at+"files", `document.querySelector('[aria-label="Files"]')`)
	show(at+"ports", `document.body.innerText.includes('No program listens') || document.querySelector('table')`)
	show(at+"metrics", `document.querySelector('.chart, .empty')`)
	show(at+"events", `document.body.innerText.includes('sandbox.running')`)
	for _, view := range []string{"turns", "workspaces", "images", "pools", "access", "audit", "drivers", "settings"} {
		show("#/"+view, `document.querySelector('nav a[href="#/`+view+`"][aria-current=page]') && document.querySelector('main h1')`)
	}
	show("#/", `document.querySelector('[aria-label="remove fox"]')`)
	f.Screenshot("firefox-sandboxes")
	f.Click(`[aria-label="remove fox"]`)
	f.Click(`dialog .yes`)
	act("remove", func() bool { return find().Name != "fox" })
	for _, m := range f.Messages() {
		if strings.Contains(m, "Content-Security-Policy") || strings.Contains(m, "Error:") {
			t.Errorf("console message: %s", m)
		}
	}
}
