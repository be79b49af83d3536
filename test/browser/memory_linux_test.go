package browser_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// TestConsoleMemory: the console needs as much memory after many events and many views as after some. It is the
// short form of an hour: a thousand events, and each view as often as a user opens it in a day. With
// $ATOLL_CONSOLE_TIME (1h) it goes on for so long, with a measurement in each twelfth of it.
func TestConsoleMemory(t *testing.T) {
	s := newTestServer(t)
	all := s.fleet.Account(fleet.LocalCaller())
	secret := s.createToken(atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeAdmin}}).Secret
	p := sharedBrowser(t).Open(t, "http://"+s.address+"/ui/#token="+secret, window1440)
	defer p.Close()
	p.WaitText(".link", "live")
	n := 0
	// work has events of a sandbox while the views are shown, and returns what the page then needs.
	work := func(rounds int) (bytes, nodes int) {
		for range rounds {
			for _, view := range []string{"s/" + s.sandboxID + "/events", "s/" + s.sandboxID + "/network", "s/" + s.sandboxID + "/files", "s/" + s.sandboxID + "/processes", "turns", "drivers", ""} {
				p.Eval(`(location.hash = '#/`+view+`', null)`, nil)
				for range 40 {
					n++
					if _, err := all.Update(t.Context(), "web", fleet.Change{Labels: map[string]string{"n": strconv.Itoa(n)}}); err != nil {
						t.Fatal(err)
					}
				}
				p.Eval(`new Promise((done) => setTimeout(done, 150))`, nil) // it draws ten times a second
			}
		}
		p.WaitText("table", "web")
		return p.Heap()
	}
	bytes, nodes := work(2) // more than the events that the page keeps
	if text := os.Getenv("ATOLL_CONSOLE_TIME"); text != "" {
		long, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i := range 12 {
			for time.Since(begun) < long*time.Duration(i+1)/12 {
				work(1)
			}
			now, elements := p.Heap()
			t.Logf("after %s and %d events: %.2f MB, %d nodes", time.Since(begun).Round(time.Second), n, float64(now)/1e6, elements)
		}
	}
	later, laterNodes := work(2)
	t.Logf("after %d events: %.1f MB, %d nodes; after %d: %.1f MB, %d nodes", n/2, float64(bytes)/1e6, nodes, n, float64(later)/1e6, laterNodes)
	if later > bytes+1<<20 {
		t.Errorf("the page grows: %s", fmt.Sprint(bytes, " bytes, then ", later))
	}
	if laterNodes > nodes+200 {
		t.Errorf("elements that were removed stay: %d nodes, then %d", nodes, laterNodes)
	}
}
