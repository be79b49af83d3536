package net_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/net"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/google/go-cmp/cmp"
)

// site starts a server that answers with a description of each request.
func site(t testing.TB) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello\n") })
	mux.HandleFunc("/echo/", showRequest)
	mux.HandleFunc("/echo", showRequest)
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("c")) // the test's own
		w.Header()["Date"] = nil
		w.WriteHeader(n)
		fmt.Fprintf(w, "status %d\n", n)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Query().Get("c")) // 0: 302
		w.Header()["Date"] = nil
		w.Header().Set("Location", r.URL.Query().Get("u"))
		w.WriteHeader(max(code, 302-302*min(1, code)))
		fmt.Fprint(w, "moved\n")
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/loop")
		w.WriteHeader(302)
	})
	mux.HandleFunc("/cookie", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1", Path: "/"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2", Path: "/elsewhere"})
		fmt.Fprint(w, "set\n")
	})
	mux.HandleFunc("/packed", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			fmt.Fprint(w, "plain\n")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "packed\n")
		_ = z.Close() // of a test's server
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begin\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "short\n")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			fmt.Fprint(w, strings.Repeat("x", 1000))
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// showRequest answers with a description of the request, without boundaries and versions.
func showRequest(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body) // what came is what is shown
	text := string(b)
	if _, boundary, ok := strings.Cut(r.Header.Get("Content-Type"), "boundary="); ok {
		text = strings.ReplaceAll(text, boundary, "BOUNDARY")
		r.Header.Set("Content-Type", "multipart/form-data; boundary=BOUNDARY")
	}
	if strings.HasPrefix(r.UserAgent(), "curl/") {
		r.Header.Set("User-Agent", "curl")
	}
	fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.RequestURI())
	for _, k := range []string{"Connection", "Expect", "Content-Length", "Transfer-Encoding"} { // how it travels
		r.Header.Del(k)
	}
	var names []string
	for k := range r.Header {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		fmt.Fprintf(w, "%s: %s\n", k, strings.Join(r.Header[k], " | "))
	}
	fmt.Fprintf(w, "%q\n", text)
}

// curlCases are command lines to compare with the host's curl; SITE is the server.
var curlCases = []string{
	"-s SITE/hello", "SITE/hello -s", "-s SITE/hello SITE/hello", "-s SITE/echo", "-s -X DELETE SITE/echo", "-s -d a=b SITE/echo", "-s -d a=b -d c=d SITE/echo", "-s -d @f SITE/echo", "-s --data-binary @f SITE/echo", "-s --data-raw @f SITE/echo",
	"-s --data-urlencode 'a=b c&d' SITE/echo", "-s --data-urlencode 'b c/~' SITE/echo", "-s --data-urlencode '=b=c' SITE/echo", "-s --data-urlencode n@f SITE/echo", "-s --data-urlencode @f SITE/echo", "-s -G -d a=b -d c=d SITE/echo", "-s -G -d x=1 'SITE/echo?y=2'", "-s -G --data-urlencode 'q=a b' SITE/echo",
	"-s --json '{\"a\":1}' SITE/echo", "-s --json @f SITE/echo", "-s -X PUT --json '{}' SITE/echo", "-s -H 'X-A: 1' -H 'X-B: 2' SITE/echo", "-s -H 'Accept:' SITE/echo", "-s -H 'X-Empty;' SITE/echo", "-s -H 'Content-Type: text/x' -d a SITE/echo", "-s -H @h SITE/echo", "-s -H 'X-A: 1' -H 'X-A: 2' SITE/echo", "-s -H 'User-Agent: me' SITE/echo", "-s -H 'User-Agent:' SITE/echo",
	"-s -A agent -e http://ref SITE/echo", "-s -A '' SITE/echo", "-s -u user:pass SITE/echo", "-s -b 'a=1; b=2' SITE/echo", "-s -b a=1 -b b=2 SITE/echo", "-s -F a=b -F 'c=d e' SITE/echo", "-s -F 'f=@f' SITE/echo", "-s -F 'f=@f;type=text/x;filename=z.t' SITE/echo", "-s -F 'f=<f' SITE/echo", "-s --form-string a=@b SITE/echo", "-s -T f SITE/echo/", "-s -T f SITE/echo/name", "-s -T - SITE/echo/stdin", "-s -T nofile SITE/echo/x",
	"-s -I SITE/hello -o /dev/null", "-s -r 0-2 SITE/echo", "-s --oauth2-bearer tok SITE/echo", "-s --compressed SITE/packed", "-s SITE/packed", "-s -X POST SITE/echo", "-s -X POST -d '' SITE/echo", "-sL SITE/to?u=/hello", "-s SITE/to?u=/hello", "-sL -d a=b SITE/to?u=/echo", "-sL -d a=b 'SITE/to?u=/echo&c=307'", "-sL -X POST -d a=b SITE/to?u=/echo", "-sL -d a=b 'SITE/to?u=/echo&c=303'", "-sL -d a=b 'SITE/to?u=/echo&c=301'", "-sL -T f 'SITE/to?u=/echo'", "-sL -u u:p SITE/to?u=/echo",
	"-sL SITE/loop", "-sSL --max-redirs 2 SITE/loop", "-sL --max-redirs 0 SITE/to?u=/hello", "-sf SITE/status?c=404", "-sSf SITE/status?c=500", "-s --fail-with-body SITE/status?c=404", "-s SITE/status?c=404", "-s -o out SITE/hello", "-s -o out SITE/hello -o out2 SITE/hello", "-s -O SITE/hello", "-sO SITE/", "-s -o no/dir/out SITE/hello", "-s --create-dirs -o no/dir/out SITE/hello", "-s --output-dir d -O SITE/hello", "-s -o d SITE/hello", "-sf -o out SITE/status?c=404",
	"-s -w '%{http_code}\\n' -o /dev/null SITE/status?c=404", "-s -w '%{http_code} %{size_download} %{num_redirects} %{content_type} %{method} %{exitcode}\\n' SITE/hello", "-sL -w '%{url_effective} %{num_redirects}' -o /dev/null SITE/to?u=/hello", "-s -w '%{redirect_url}\\t%{scheme} %{http_version}%%\\n' SITE/to?u=/hello", "-s -w '%{filename_effective}' -o out SITE/hello", "-s -w '%{nosuch}x' SITE/hello", "-s -w @w SITE/hello", "-s -w '%{response_code}' -sf SITE/status?c=500", "-s -w '%{exitcode} %{errormsg}\\n' -f SITE/status?c=500",
	"-s --max-time 0.3 SITE/slow", "-s -m 0.3 -o out SITE/slow", "-s SITE/cut", "-s --max-filesize 10 SITE/cut", "-s --max-filesize 3 SITE/hello", "-s http://127.0.0.1:1/", "-sS http://127.0.0.1:1/ -o out", "-s http://nosuch.invalid/", "-s nosuch://x/", "-s 'http://'", "-s --nosuch SITE/hello", "-s -d", "-s", "", "-s -c jar SITE/cookie", "-s -b nofile SITE/echo", "-s -i SITE/status?c=204", "-s --url SITE/hello", "-s -k -X", "-s --max-time x SITE/hello", "-s -y SITE/hello -Y",
	"-sN SITE/hello", "-s4 SITE/hello", "-s -g SITE/hello", "-s -# SITE/hello", "-s --http1.1 SITE/hello", "-s --no-keepalive SITE/hello", "-s --retry 1 --retry-delay 0 SITE/status?c=404", "-s -d a=b -I SITE/echo", "-s -d a -F b=c SITE/echo", "-s -T f -d a SITE/echo", "-s SITE/big -o out", "-s 'SITE/echo?a=b c'", "-s 'SITE/echo#frag'", "-s SITE/echo/../hello", "-s --path-as-is SITE/echo/./x", "-sX GET -d a=b SITE/echo", "-s --location --silent SITE/to?u=hello", "-s -D dump -o /dev/null SITE/status?c=204", "-s -e 'x;auto' SITE/echo", "-s --data-ascii a=b SITE/echo", "-s -H 'Expect:' -d x SITE/echo", "--silent --show-error --fail --location SITE/hello", "-fsSL SITE/to?u=/status?c=404", "-s user:pw@HOST/echo", "-s http://user:p%40w@HOST/echo", "-s HOST/hello",
}

func TestCurl(t *testing.T) {
	commandtest.RequireTool(t, "curl")
	srv := site(t)
	tree := []string{"f=line1\nline2\n", "h=X-F: 1\nX-G: 2\n", "w=%{http_code}\n", "d/"}
	for _, line := range curlCases {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := newCurlSandbox(t, dir)
			c := commandtest.Case{Tree: tree, Stdin: "from stdin"}
			commandtest.MakeTree(t, commandtest.HostFS{}, dir, tree)
			commandtest.MakeTree(t, s.FS, dir, tree)
			args := append([]string{"curl"}, commandtest.SplitWords(strings.NewReplacer("SITE", srv.URL, "HOST", srv.Listener.Addr().String()).Replace(line))...)
			want := commandtest.RunOnHost(t, dir, c, args)
			got := s.Exec(c.Stdin, args...)
			for _, o := range []*commandtest.Result{&want, &got} {
				o.Stderr = regexp.MustCompile(`after \d+ ms`).ReplaceAllString(o.Stderr, "after 0 ms")
				o.Stdout = regexp.MustCompile(`(Cookie: a=1);b`).ReplaceAllString(o.Stdout, "$1; b")
			}
			if !strings.Contains(line, "sS") {
				want.Stderr, got.Stderr = "", ""
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-curl +ours)\n%s\n%s", d, got.Stderr)
			}
			a, b := commandtest.ListFiles(t, os.DirFS(dir), commandtest.ReadHostLink(dir), c), commandtest.ListFiles(t, commandtest.Sub(t, s.FS.IO(), dir), s.Readlink, c)
			if d := cmp.Diff(a, b); d != "" {
				t.Errorf("files (-curl +ours)\n%s", d)
			}
		})
	}
}

// newCurlSandbox returns a sandbox with curl and the host's network.
func newCurlSandbox(t testing.TB, dir string) *commandtest.Sandbox {
	t.Helper()
	s := commandtest.New(t, dir, net.Curl())
	programs := program.ByName(append(command.All(), net.Curl()))
	s.Kernel = kernel.New(kernel.Config{FS: s.FS, Programs: programs, Network: &http.Transport{DisableKeepAlives: true, DisableCompression: true}})
	return s
}

func TestCurlEndsWithItsDeadline(t *testing.T) {
	srv := site(t)
	for _, line := range []string{"curl -s SITE/slow", "curl -s -o f SITE/slow", "curl -s --retry 9 --retry-delay 60 SITE/status?c=503"} {
		s := newCurlSandbox(t, "/w")
		_, err := s.RunBounded(300*time.Millisecond, strings.NewReader(""), io.Discard, commandtest.SplitWords(strings.ReplaceAll(line, "SITE", srv.URL))...)
		if err == nil {
			t.Errorf("%s did not stop at its deadline", line)
		}
	}
}

func TestCurlWithoutNetworkSaysHowToAllowIt(t *testing.T) {
	s := commandtest.New(t, "/w", net.Curl())
	if o := s.Exec("", "curl", "http://example.com/"); o.Code != 7 || !strings.Contains(o.Stderr, "no network") || !strings.Contains(o.Stderr, "--allow") {
		t.Errorf("%+v", o)
	}
}
