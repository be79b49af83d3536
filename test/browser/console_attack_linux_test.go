package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// testAttacks attacks the console from a page of another origin. Stored scripts are in the steps of the views:
// checkHarmless fails if one has run.
func (c *consoleTest) testAttacks() {
	var stored string
	c.p.Eval(`document.cookie + location.href + JSON.stringify(localStorage) + JSON.stringify(history.state)`, &stored)
	if strings.Contains(stored, "atoll_") {
		c.Errorf("the token is stored where others may find it: %s", stored)
	}
	sandbox := "http://" + c.s.address + "/v1/sandboxes/" + c.find("made").ID
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<iframe name=framed src="http://%s/ui/"></iframe><iframe name=sink></iframe>
<form method=post target=sink enctype="text/plain" action="%s/stop"><input name='{"a":"' value='"}'></form><form id=second method=post target=sink action="http://%s/v1/sandboxes"></form>`, c.s.address, sandbox, c.s.address) // write errors mean that the client is gone
	}))
	defer evil.Close()
	p := c.b.Open(c.T, evil.URL, browser.Window{})
	defer p.Close()
	c.forgeRequests(p, sandbox)
	frames := func(m string) bool { return strings.Contains(m, "frame-ancestors") }
	if said := p.ConsoleMessages(); !slices.ContainsFunc(said, frames) {
		c.Errorf("another page may frame the console: %q", said)
	}
	// A name of the attacker that leads to this server: its pages would be of the console's origin.
	p.Goto("http://rebound.evil.test:" + c.s.address[strings.LastIndex(c.s.address, ":")+1:] + "/ui/")
	p.WaitText("body", "not a host name of this server")
}

// forgeRequests sends the requests that a page of another origin can send without asking, and verifies that
// none has an effect.
func (c *consoleTest) forgeRequests(p *browser.Page, sandbox string) {
	c.Helper()
	before := len(c.list())
	var answers []string
	p.Eval(`(async () => {
		for (const f of document.forms) { f.submit(); await new Promise((done) => { document.querySelector('[name=sink]').onload = done }) }
		const at = '`+sandbox+`'
		const list = []
		for (const [path, o] of [['/stop', { method: 'POST', mode: 'no-cors' }], ['', { method: 'DELETE' }], ['/exec', { method: 'POST', body: '{"shell":"touch forged"}', headers: { 'Content-Type': 'application/json' } }], ['', {}]])
			list.push(await fetch(at + path, { credentials: 'include', ...o }).then((r) => r.type + ' ' + r.status, () => 'refused'))
		list.push(await new Promise((done) => { const w = new WebSocket(at.replace('http', 'ws') + '/terminals/1/attach', ['exec.v1.atoll']); w.onopen = () => done('open'); w.onerror = () => done('refused') }))
		return list
	})()`, &answers)
	if want := []string{"opaque 0", "refused", "refused", "refused", "refused"}; !slices.Equal(answers, want) {
		c.Errorf("a page of another origin got %q, want %q", answers, want)
	}
	if made := c.find("made"); made.State != atoll.Running || len(c.list()) != before || c.read("forged") != "" || c.output("ls forged 2>/dev/null || :") != "" {
		c.Errorf("a page of another origin had an effect: made is %s, %d sandboxes instead of %d", made.State, len(c.list()), before)
	}
}
