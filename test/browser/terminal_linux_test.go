package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/test/browser"
)

var readAndRun = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}

// TestTerminals uses the terminal page in a browser. The cases share a browser and a
// sandbox; each has its own terminals.
func TestTerminals(t *testing.T) {
	b := sharedBrowser(t)
	s := newTestServer(t)
	for _, c := range []struct {
		law string
		try func(*testing.T, *testServer, *browser.Browser)
	}{
		{"SharedByTwoBrowsersAndACommandLine", testShared},
		{"LateJoinerSeesTheSameCells", testLateJoiner},
		{"MuchOutputEndsOnTheExactScreen", testFlood},
		{"SmallestWindowThatTypesCounts", testSizes},
		{"ReadOnlyLinkOnlyLooks", testReadOnly},
		{"RevokedWhileAttached", testRevokedToken},
		{"LinksAndTitlesOfPrograms", testHostileOutput},
		{"OpenAndClose", testOpenAndClose},
		{"EndIsShown", testEnd},
		{"BadToken", testBadToken},
		{"SlowNetwork", testSlowNetwork},
		{"ServerRestart", testServerRestart}, // last, because it closes the connections of others
	} {
		t.Run(c.law, func(t *testing.T) {
			outer := s.TB
			s.TB = t
			defer func() { s.TB = outer }()
			c.try(t, s, b)
		})
	}
}

// waitForConnected waits until a page is connected.
func waitForConnected(p *browser.Page) { p.Wait(`Boolean(document.querySelector('.badge.connected'))`) }

// typeLine types a line and presses Enter.
func typeLine(p *browser.Page, line string) {
	p.Click(".box .xterm")
	p.Type(line)
	p.Press("Enter")
}

func testShared(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("shared")
	link, _ := s.createLink("shared", readAndRun...)
	one, two := b.Open(t, link, browser.Window{}), b.Open(t, link, browser.Window{})
	defer one.Close()
	defer two.Close()
	waitForText(one, "$")
	cli := s.attachCommandLine("shared", one)
	typeLine(one, `echo "<$((6*7))>"`)
	waitForText(two, "<42>")
	if _, err := cli.Write([]byte("echo '{'typed'}'\r")); err != nil {
		t.Fatal(err)
	}
	waitForText(one, "{typed}")
	waitForText(two, "{typed}")
	typeLine(two, `echo "grüße 漢字 $((1+1))"`)
	waitForText(one, "grüße 漢字 2")
	one.Screenshot("shared")
	waitForEqualScreens(t, one, two)
	cli.waitForSameScreen(t, one)
	cli.detach(t)
	typeLine(one, `echo "left to $((1+1))"`)
	waitForText(two, "left to 2")
	var kept string
	one.Eval(`document.cookie + location.href + JSON.stringify(localStorage)`, &kept)
	if strings.Contains(kept, "atoll_") {
		t.Errorf("the token is stored where it must not be: %s", kept)
	}
	if said := one.ConsoleMessages(); len(said) > 0 {
		t.Errorf("console messages: %q", said)
	}
}

func testLateJoiner(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("late")
	link, _ := s.createLink("late", readAndRun...)
	first := b.Open(t, link, browser.Window{})
	defer first.Close()
	waitForText(first, "$")
	join := func(name string) {
		t.Helper()
		other := b.Open(t, link, browser.Window{})
		defer other.Close()
		waitForConnected(other)
		waitForEqualScreens(t, first, other)
		other.Screenshot("late-" + name)
	}
	typeLine(first, `printf '\e[1;31mred\e[0m \e[48;5;24m blue \e[0m \e[38;2;255;120;0mtrue\e[0m \e[4munder\e[7mrev\e[0m 漢字ｱ e\u0301 👍 |\n'; seq 1 100 | tail -12; echo colours''done`)
	waitForText(first, "coloursdone")
	join("main")
	for _, c := range []struct{ name, line, shown, quit string }{
		{"vi", "vi /etc/passwd", "root:", "Escape : q ! Enter"},
		{"less", "less /etc/passwd", "root:", "q"},
		{"top", "top -d 600 -b -n 1 | head -20 | less", "PID", "q"},
	} {
		if exit, err := s.openSandbox().Exec(t.Context(), atoll.Cmd{Shell: "command -v " + c.name}); err != nil || exit.Code != 0 {
			t.Logf("no %s inside: %v", c.name, err)
			continue
		}
		typeLine(first, c.line)
		first.Wait(`window.atoll.term.buffer.active.type === 'alternate'`)
		waitForText(first, c.shown)
		join(c.name)
		for _, key := range strings.Fields(c.quit) {
			first.Press(key)
		}
		first.Wait(`window.atoll.term.buffer.active.type === 'normal'`)
		join("after-" + c.name)
	}
}

func testFlood(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("flood")
	link, _ := s.createLink("flood", readAndRun...)
	p, looks := b.Open(t, link, browser.Window{}), b.Open(t, link, browser.Window{})
	defer p.Close()
	defer looks.Close()
	waitForText(p, "$")
	waitForConnected(looks)
	// 26 MB, followed by a text that marks the end.
	typeLine(p, `yes 'all work and no play makes a dull terminal, line after line' | head -c 26000000; seq 1 9; echo "the "end`)
	waitForText(p, "the end")
	waitForText(looks, "the end")
	waitForEqualScreens(t, p, looks)
}

func testSizes(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("sizes")
	link, _ := s.createLink("sizes", readAndRun...)
	look, _ := s.createLink("sizes", atoll.ScopeRead)
	big := b.Open(t, link, browser.Window{Width: 1200, Height: 700})
	defer big.Close()
	waitForText(big, "$")
	size := `window.atoll.term.cols + 'x' + window.atoll.term.rows`
	var alone string
	big.Eval(size, &alone)
	viewer := b.Open(t, look, browser.Window{Width: 500, Height: 400}) // read-only: does not limit the size
	defer viewer.Close()
	waitForText(viewer, "$")
	typeLine(big, "stty size")
	var cols, rows int
	if _, err := fmt.Sscanf(alone, "%dx%d", &cols, &rows); err != nil {
		t.Fatal(err)
	}
	waitForText(big, fmt.Sprintf("%d %d", rows, cols))
	viewer.Wait(size + ` === '` + alone + `'`)
	phone := b.Open(t, link, browser.Window{Width: 420, Height: 700, Touch: true})
	waitForConnected(phone)
	big.Wait(size + ` !== '` + alone + `'`)
	big.WaitText(".note", "×")
	waitForEqualScreens(t, big, phone)
	big.Screenshot("smaller")
	phone.Screenshot("phone")
	phone.Resize(600, 500)
	phone.Wait(`window.atoll.term.rows < 40 && window.atoll.term.cols > 55`)
	waitForEqualScreens(t, big, phone)
	phone.Close()
	big.Wait(size + ` === '` + alone + `'`)
	big.Wait(`document.querySelector('.note').textContent === ''`) // no other window limits the size
}

func testReadOnly(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("watched")
	link, _ := s.createLink("watched", atoll.ScopeRead)
	p := b.Open(t, link, browser.Window{Light: true})
	defer p.Close()
	waitForText(p, "$")
	p.WaitText(".only", "read-only")
	typeLine(p, "echo wrong")
	if err := s.openSandbox().SendTerminal(t.Context(), "watched", []byte("echo right\r")); err != nil {
		t.Fatal(err)
	}
	waitForText(p, "right")
	screen, err := s.openSandbox().ReadTerminal(t.Context(), "watched")
	if err != nil || strings.Contains(strings.Join(screen.Lines, "\n"), "wrong") {
		t.Errorf("a read-only link could type: %q, %v", screen.Lines, err)
	}
	p.Screenshot("read-only-light")
	// The token has no other rights.
	var status []int
	p.Eval(`(async () => {
		const headers = { Authorization: 'Bearer ' + sessionStorage.getItem('atoll-token'), 'Content-Type': 'application/json' }
		const at = '/v1/sandboxes/`+s.sandboxID+`'
		const list = []
		for (const [method, path, body] of [['POST', at + '/terminals', '{}'], ['POST', at + '/terminals/watched/input', '{"input":"eA=="}'], ['DELETE', at + '/terminals/watched'],
			['GET', at + '/files?path=/etc/passwd'], ['POST', at + '/exec', '{"shell":"id"}'], ['GET', '/v1/tokens'], ['GET', '/v1/sandboxes'], ['GET', at + '/terminals/late/screen']])
			list.push((await fetch(path, { method, headers, body })).status)
		return list
	})()`, &status)
	for i, st := range status {
		if st != http.StatusForbidden && st != http.StatusNotFound {
			t.Errorf("call %d of a read-only link: status %d", i, st)
		}
	}
}

func testRevokedToken(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("revoked")
	link, token := s.createLink("revoked", readAndRun...)
	p := b.Open(t, link, browser.Window{})
	defer p.Close()
	waitForText(p, "$")
	if err := s.fleet.Account(fleet.LocalCaller()).RevokeToken(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	p.WaitText(".bar", "no longer good")
	p.Screenshot("revoked")
}

func testHostileOutput(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("hostile")
	link, _ := s.createLink("hostile", readAndRun...)
	p := b.Open(t, link, browser.Window{})
	defer p.Close()
	waitForText(p, "$")
	p.Eval(`(window.opened = [], window.open = (u) => { window.opened.push(String(u)) }, window.copied = [],
		navigator.clipboard && (navigator.clipboard.writeText = async (x) => { window.copied.push(x) }), null)`, nil)
	typeLine(p, `printf '\e]0;<img src=x onerror=alert(1)>\u202egpj.exe\a'; printf '\e]52;c;c3RvbGVu\a'; printf '\e]8;;javascript:alert(1)\e\\bad\e]8;;\e\\ http://example.com/x\n'; echo "tricks "done`)
	waitForText(p, "tricks done")
	p.Wait(`document.querySelector('.title').textContent === '<img src=x onerror=alert(1)>gpj.exe'`) // the reversed text was removed
	var n int
	p.Eval(`document.querySelectorAll('img').length + window.copied.length`, &n)
	if n != 0 {
		t.Error("what a program wrote became an element, or was copied")
	}
	// A click on the link asks first.
	p.Eval(`(async () => {
		const t = window.atoll.term, b = t.buffer.active
		for (let y = 0; y < t.rows; y++) {
			const x = b.getLine(b.baseY + y).translateToString(true).indexOf('http://example.com/x')
			const r = t.element.querySelector('.xterm-screen').getBoundingClientRect()
			if (x > 0 && !b.getLine(b.baseY + y).translateToString(true).includes('printf')) { window.spot = [r.left + (x + 3) * r.width / t.cols, r.top + (y + 0.5) * r.height / t.rows] }
		}
		const e = document.elementFromPoint(...window.spot)
		for (let i = 0; i < 100 && !document.querySelector('dialog'); i++) { // what is below the mouse is looked for by and by
			for (const kind of ['mousemove', 'mousedown', 'mouseup', 'click'])
				e.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: window.spot[0], clientY: window.spot[1], button: 0, buttons: kind === 'mousedown' ? 1 : 0 }))
			await new Promise((done) => setTimeout(done, 300))
		}
	})()`, nil)
	p.WaitText("dialog", "http://example.com/x")
	p.Screenshot("ask")
	p.Click("dialog .plain")
	p.Wait(`!document.querySelector('dialog')`)
	p.Eval(`window.opened.length`, &n)
	if n != 0 {
		t.Error("a link was opened without confirmation")
	}
}

func testOpenAndClose(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("chosen")
	p := b.Open(t, "http://"+s.address+"/ui/#token="+s.token, browser.Window{})
	defer p.Close()
	p.WaitText("table", "web")
	p.Eval(`(location.hash = '#/s/`+s.sandboxID+`/', null)`, nil)
	p.WaitText("nav.list", "chosen")
	p.Click(`nav [title="bash --norc --noprofile"] >> nth=0`)
	waitForConnected(p)
	p.Eval(`window.former = window.atoll.term, null`, nil)
	p.Click("nav .add")
	p.Wait(`window.atoll.term !== window.former`) // input typed before would go to the former terminal
	waitForConnected(p)
	waitForText(p, "$")
	typeLine(p, `echo "ne"w`)
	waitForText(p, "new")
	p.Screenshot("list")
	list, err := s.openSandbox().ListTerminals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := list[len(list)-1].Name
	p.Click(fmt.Sprintf(`nav [aria-label="Close %s"]`, last))
	p.Click("dialog .yes")
	p.Wait(fmt.Sprintf(`!document.querySelector('nav [aria-label="Close %s"]')`, last))
}

func testEnd(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("ends")
	link, _ := s.createLink("ends", readAndRun...)
	p := b.Open(t, link, browser.Window{})
	defer p.Close()
	waitForText(p, "$")
	typeLine(p, "exit 3")
	p.WaitText(".bar", "Ended with status 3")
	p.Screenshot("ended")
}

func testBadToken(t *testing.T, s *testServer, b *browser.Browser) {
	p := b.Open(t, "http://"+s.address+"/ui/#token=atoll_nope", browser.Window{})
	defer p.Close()
	p.WaitText(".knock", "not good")
	p.Screenshot("knock")
	p.Click(".knock input")
	p.Type(s.token)
	p.Press("Enter")
	p.WaitText("main", "web")
}

// testSlowNetwork pauses the network: the page must show that it waits, and text that
// was typed meanwhile must arrive.
func testSlowNetwork(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("slow")
	link, _ := s.createLink("slow", readAndRun...)
	wire := newRelay(t, s.address)
	p := b.Open(t, strings.Replace(link, s.address, wire.listener.Addr().String(), 1), browser.Window{})
	defer p.Close()
	waitForText(p, "$")
	typeLine(p, `echo "be"fore`)
	waitForText(p, "before")
	wire.pause()
	p.WaitText(".bar", "what you type is sent then")
	typeLine(p, `echo "whi"le`)
	p.WaitText(".bar", "Waiting for the server to answer")
	p.Screenshot("slow")
	wire.resume()
	waitForConnected(p)
	waitForText(p, "while")
	waitForText(p, "before")
}

func testServerRestart(t *testing.T, s *testServer, b *browser.Browser) {
	s.openTerminal("stays")
	link, _ := s.createLink("stays", readAndRun...)
	p := b.Open(t, link, browser.Window{})
	defer p.Close()
	waitForText(p, "$")
	typeLine(p, `for i in 1 2 3; do printf "\e[3${i}mline $i\e[0m\n"; done; echo "be"fore`)
	waitForText(p, "before")
	s.stopServer()
	p.WaitText(".bar", "trying again")
	p.Screenshot("restart")
	s.startServer()
	waitForConnected(p)
	typeLine(p, `echo "af"ter`)
	waitForText(p, "after")
	waitForText(p, "before")
	other := b.Open(t, link, browser.Window{})
	defer other.Close()
	waitForConnected(other)
	waitForEqualScreens(t, p, other)
	// The connection breaks and is restored.
	p.Offline(true)
	p.Offline(false)
	typeLine(p, `echo "aga"in`)
	waitForText(p, "again")
}
