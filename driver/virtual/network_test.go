package virtual_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// startSite starts a server on loopback that stands for the internet.
func startSite(t *testing.T) (*httptest.Server, *url.URL) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s\n", r.Host) })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "secret") })
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for range 12 {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1000)
		n, _ := r.Body.Read(body)
		fmt.Fprintf(w, "%s %s %s %s\n", r.Method, r.Header.Get("X-Test"), r.Header.Get("Content-Type"), body[:n])
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return srv, u
}

func newNetworkRunner(t *testing.T, n atoll.Network) func(script string) atoll.Exit {
	t.Helper()
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{Network: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Destroy(t.Context()) })
	return func(script string) atoll.Exit {
		t.Helper()
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return exit
	}
}

func TestNetworkReachesWhatIsAllowed(t *testing.T) {
	_, u := startSite(t)
	run := newNetworkRunner(t, atoll.Network{Allow: []string{u.Host}})
	for script, want := range map[string]string{
		"curl -s http://" + u.Host + "/hello":                                                   "hello " + u.Host + "\n",
		"curl -sL 'http://" + u.Host + "/to?u=/hello'":                                          "hello " + u.Host + "\n",
		"curl -s -X PUT -H 'X-Test: 1' -d a=b http://" + u.Host + "/echo":                       "PUT 1 application/x-www-form-urlencoded a=b\n",
		"curl -s --json '{\"a\":1}' http://" + u.Host + "/echo":                                 "POST  application/json {\"a\":1}\n",
		"curl -s -o /dev/null -w '%{http_code} %{num_redirects}' http://" + u.Host + "/missing": "404 0",
		"curl -s -o /f http://" + u.Host + "/hello && cat /f":                                   "hello " + u.Host + "\n",
		"curl -sI http://" + u.Host + "/hello | head -n 1":                                      "HTTP/1.1 200 OK\r\n",
		"curl -sf http://" + u.Host + "/missing; echo $?":                                       "22\n",
	} {
		if exit := run(script); string(exit.Stdout) != want {
			t.Errorf("%s: %q (%s), want %q", script, exit.Stdout, exit.Stderr, want)
		}
	}
}

func TestNetworkRefusesTheRest(t *testing.T) {
	_, u := startSite(t)
	_, other := startSite(t)
	attacks := map[string]string{
		"another port":            "curl -s http://" + other.Host + "/secret",
		"a redirect to elsewhere": "curl -sL 'http://" + u.Host + "/to?u=http://" + other.Host + "/secret'",
		"a name of the address":   "curl -s http://localhost:" + u.Port() + "/secret",
		"another form of it":      "curl -s http://127.1:" + u.Port() + "/secret",
		"as a number":             "curl -s http://2130706433:" + u.Port() + "/secret",
		"mapped to IPv6":          "curl -s 'http://[::ffff:127.0.0.1]:" + other.Port() + "/secret'",
		"the host header":         "curl -s -H 'Host: " + other.Host + "' http://" + u.Host + "/secret",
		"user info":               "curl -s http://" + u.Host + "@" + other.Host + "/secret",
		"another protocol":        "curl -s file:///etc/passwd || curl -s gopher://" + other.Host + "/secret",
		"a device of the shell":   "exec 3<>/dev/tcp/127.0.0.1/" + other.Port() + "; echo GET /secret >&3; cat <&3",
	}
	run := newNetworkRunner(t, atoll.Network{Allow: []string{u.Host}})
	for what, script := range attacks {
		if exit := run(script); strings.Contains(string(exit.Stdout), "secret\n") || exit.Code == 0 {
			t.Errorf("%s: status %d, %q", what, exit.Code, exit.Stdout)
		}
	}
	// Each request succeeds with an open network.
	open := newNetworkRunner(t, atoll.Network{Mode: atoll.NetworkOpen})
	for _, what := range []string{"another port", "a redirect to elsewhere", "a name of the address"} {
		if exit := open(attacks[what]); string(exit.Stdout) != "secret\n" {
			t.Errorf("%s does not work with an open network either: the test shows nothing (%s)", what, exit.Stderr)
		}
	}
}

func TestNetworkNeverReachesPrivateAddressesByName(t *testing.T) {
	_, u := startSite(t)
	for what, n := range map[string]atoll.Network{
		"a name that resolves to loopback": {Allow: []string{"localhost:" + u.Port()}},
		"nat":                              {Mode: atoll.NetworkNAT},
	} {
		run := newNetworkRunner(t, n)
		exit := run("curl -sS http://localhost:" + u.Port() + "/secret")
		if exit.Code == 0 || !strings.Contains(string(exit.Stderr), "denied") {
			t.Errorf("%s: status %d, %q %q", what, exit.Code, exit.Stdout, exit.Stderr)
		}
	}
}

func TestNetworkPathRules(t *testing.T) {
	_, u := startSite(t)
	run := newNetworkRunner(t, atoll.Network{Allow: []string{u.String() + "/hello"}})
	if exit := run("curl -s " + u.String() + "/hello"); exit.Code != 0 {
		t.Errorf("the allowed path: %s", exit.Stderr)
	}
	for _, p := range []string{"/secret", "/helloX", "/hello/../secret", "/hello/%2e%2e/secret", "/hello%2f..%2fsecret", "//secret", "/to?u=/secret"} {
		if exit := run("curl -sL --path-as-is '" + u.String() + p + "'"); exit.Code == 0 {
			t.Errorf("%s: %q", p, exit.Stdout)
		}
	}
}

func TestNetworkIsBounded(t *testing.T) {
	_, u := startSite(t)
	run := newNetworkRunner(t, atoll.Network{Allow: []string{u.Host}})
	exit := run("curl -s -o /big http://" + u.Host + "/big; echo $?; wc -c < /big")
	if lines := strings.Fields(string(exit.Stdout)); len(lines) != 2 || lines[0] != "23" || len(lines[1]) > 8 {
		t.Errorf("a body of 12 MB into a file of at most 10: %q", exit.Stdout)
	}
	exit = run("curl -s --max-filesize 1000 http://" + u.Host + "/big > /dev/null; echo $?")
	if string(exit.Stdout) != "63\n" {
		t.Errorf("--max-filesize: %q", exit.Stdout)
	}
	exit = run("curl -s -m 0.2 http://" + u.Host + "/slow; echo $?")
	if string(exit.Stdout) != "28\n" {
		t.Errorf("--max-time: %q", exit.Stdout)
	}
	exit = run("timeout 0.2 curl -s http://" + u.Host + "/slow; echo $?")
	if string(exit.Stdout) != "124\n" {
		t.Errorf("killed in the middle: %q", exit.Stdout)
	}
	exit = run("curl -sL --max-redirs 3 'http://" + u.Host + "/to?u=/to?u=/to?u=/to?u=/hello'; echo $?")
	if exit := string(exit.Stdout); exit == "0\n" {
		t.Errorf("--max-redirs: %q", exit)
	}
}

func TestNoNetworkNoCurl(t *testing.T) {
	run := newNetworkRunner(t, atoll.Network{})
	if exit := run("command -v curl; ls /bin/curl /usr/bin/curl 2>/dev/null"); len(exit.Stdout) != 0 {
		t.Errorf("curl is there: %q", exit.Stdout)
	}
}

// An allowed address must not open the names behind it, which mode nat would allow elsewhere.
func TestAttackNamesBehindAddress(t *testing.T) {
	_, u := startSite(t)
	curl := "curl -s -H 'Host: secret.corp' http://" + u.Host + "/hello"
	for _, n := range []atoll.Network{{Allow: []string{u.Host}}, {Mode: atoll.NetworkNAT, Allow: []string{u.Host}}} {
		run := newNetworkRunner(t, n)
		if exit := run("curl -s http://" + u.Host + "/hello"); string(exit.Stdout) != "hello "+u.Host+"\n" {
			t.Errorf("%q: the address itself: %q", n.Mode, exit.Stdout)
		}
		if exit := run(curl); exit.Code == 0 || len(exit.Stdout) != 0 {
			t.Errorf("%q: a name behind it: exit %d, %q", n.Mode, exit.Code, exit.Stdout)
		}
	}
	also := newNetworkRunner(t, atoll.Network{Allow: []string{u.Host, "secret.corp"}})
	if exit := also(curl); string(exit.Stdout) != "hello secret.corp\n" {
		t.Errorf("the name is allowed too: exit %d, %q", exit.Code, exit.Stdout)
	}
}
