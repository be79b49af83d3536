// Command proxy measures how much longer a request by host name takes than one
// directly to the server: through the proxy and httputil.ReverseProxy to the
// same server, through the proxy into a sandbox, and through Caddy if it is
// installed, in one run on one machine. The aim is less than 10 ms (SC-006).
//
//	ATOLL_HELPERS=.cache/helpers go run ./bench/proxy -time 3s
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// siteEnv is the variable that makes this program the server in a sandbox.
const siteEnv = "ATOLL_BENCH_PROXY_SITE"

// answer is the body of every response.
var answer = bytes.Repeat([]byte("x"), 1<<10)

// newSite returns the handler of the server that all paths lead to.
func newSite() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(answer) // a client that has disconnected needs no answer
	})
}

func main() {
	if port := os.Getenv(siteEnv); port != "" {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = http.Serve(l, newSite())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	long := flag.Duration("time", 2*time.Second, "duration of each measurement")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *long); err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy:", err)
		os.Exit(1)
	}
}

// accessPath is a way to reach the server.
type accessPath struct {
	name, url, host string
}

func run(ctx context.Context, long time.Duration) error {
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	serve := func(h http.Handler) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Serve(l) // it ends with Close
		}()
		ends = append(ends, func() {
			_ = s.Close()
			<-done
		})
		return l.Addr().String(), nil
	}
	at, err := serve(newSite())
	if err != nil {
		return err
	}
	plain, err := serve(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at}))
	if err != nil {
		return err
	}
	all := finder{"web": direct{at}}
	p := &proxy.Proxy{Finder: all}
	ours, err := serve(p)
	if err != nil {
		return err
	}
	ends = append(ends, func() { _ = p.Close() })
	ways := []accessPath{
		{"straight to the server", "http://" + at, ""},
		{"httputil.ReverseProxy", "http://" + plain, ""},
		{"atoll, the same server", "http://" + ours, "3000-web.localhost"},
	}
	sb, end, err := createServingSandbox(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy: sandboxes are left out:", err)
	} else {
		ends = append(ends, end)
		all["box"] = proxy.NewTarget(sb, 0)
		ways = append(ways, accessPath{"atoll, into a sandbox", "http://" + ours, "3000-box.localhost"}, accessPath{"atoll, its main port", "http://" + ours, "box.localhost"})
	}
	if caddy, end, err := startCaddy(ctx, at); err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy: Caddy is left out:", err)
	} else {
		ends = append(ends, end)
		ways = append(ways, accessPath{"Caddy, the same server", "http://" + caddy, ""})
	}
	return printTable(ctx, ways, long)
}

// printTable measures all paths, and prints them as differences to the first.
func printTable(ctx context.Context, ways []accessPath, long time.Duration) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d processors, 1 kB answers\t1 client: p50\tp95\tover straight\t16 clients: p95\trequests/s\t\n", runtime.NumCPU())
	var first time.Duration
	for _, way := range ways {
		one, err := measureLatency(ctx, way, 1, long)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		many, err := measureLatency(ctx, way, 16, long)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if first == 0 {
			first = percentile(one, 50)
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t+%v\t%v\t%.0f\t\n", way.name, percentile(one, 50), percentile(one, 95), percentile(one, 50)-first, percentile(many, 95), float64(len(many))/long.Seconds())
	}
	return w.Flush()
}

// percentile returns a percentile of sorted times.
func percentile(times []time.Duration, percent int) time.Duration {
	return times[len(times)*percent/100].Round(time.Microsecond)
}

// measureLatency sends requests from concurrent clients for a time, and
// returns the duration of each, sorted.
func measureLatency(ctx context.Context, way accessPath, clients int, long time.Duration) ([]time.Duration, error) {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer c.CloseIdleConnections()
	var (
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		wg   sync.WaitGroup
	)
	until := time.Now().Add(long)
	for range clients {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil && time.Now().Before(until) {
				began := time.Now()
				err = sendRequest(ctx, c, way)
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, mine...), append(errs, err)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, errors.Join(errs...)
}

func sendRequest(ctx context.Context, c *http.Client, way accessPath) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, way.url, nil)
	if err != nil {
		return err
	}
	req.Host = way.host
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n != int64(len(answer))) {
		err = fmt.Errorf("%s, %d bytes", res.Status, n)
	}
	return err
}

// finder finds the sandboxes by name.
type finder map[string]proxy.Target

func (f finder) Find(_ context.Context, project string) (proxy.Target, error) {
	if t, ok := f[project]; ok {
		return t, nil
	}
	return nil, atoll.ErrNotFound
}

// direct is a target all of whose ports are one server of this machine.
type direct struct{ address string }

func (direct) ID() string                                 { return "direct" }
func (direct) MainPort() int                              { return 3000 }
func (direct) State(context.Context) (atoll.State, error) { return atoll.Running, nil }
func (direct) Ports(context.Context) ([]atoll.Port, error) {
	return []atoll.Port{{Port: 3000}}, nil
}

func (d direct) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", d.address)
}

// createServingSandbox creates a sandbox in which this program serves on port
// 3000.
func createServingSandbox(ctx context.Context) (sb atoll.Sandbox, end func(), err error) {
	dir, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return nil, nil, err
	}
	d := &namespace.Driver{Dir: dir}
	end = func() {
		if sb != nil {
			_ = sb.Destroy(context.WithoutCancel(ctx))
		}
		_ = d.Close()
		_ = os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if _, err = d.Probe(ctx); err != nil {
		return nil, nil, err
	}
	if sb, err = d.Create(ctx, atoll.Spec{}); err != nil {
		return nil, nil, err
	}
	if err = copySelf(ctx, sb); err != nil {
		return nil, nil, err
	}
	enough := errors.New("enough")
	err = atoll.Notices(ctx, sb, func(n atoll.Notice) error {
		switch n.Kind {
		case atoll.NoticeReady:
			detacher, ok := atoll.As[atoll.Detacher](sb)
			if !ok {
				return atoll.ErrUnsupported
			}
			_, err := detacher.Detach(ctx, atoll.Cmd{Args: []string{"/workspace/site"}, Env: []string{siteEnv + "=3000"}, Timeout: -1})
			return err
		case atoll.NoticePortOpened:
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return sb, end, err
}

// copySelf copies this program into a sandbox.
func copySelf(ctx context.Context, sb atoll.Sandbox) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := tw.WriteHeader(&tar.Header{Name: "site", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return err
	}
	if _, err := tw.Write(program); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return sb.Import(ctx, "/workspace", &b)
}

// startCaddy starts the machine's Caddy as a proxy of a server.
func startCaddy(ctx context.Context, to string) (at string, end func(), err error) {
	bin, err := exec.LookPath("caddy")
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	at = l.Addr().String()
	_ = l.Close() // Caddy listens on the port instead
	dir, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "Caddyfile")
	text := fmt.Sprintf("{\n admin off\n auto_https off\n}\nhttp://%s {\n reverse_proxy %s\n}\n", at, to)
	cmd := exec.CommandContext(ctx, bin, "run", "--adapter", "caddyfile", "--config", file)
	cmd.Env = []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
	if err = errors.Join(os.WriteFile(file, []byte(text), 0o600), cmd.Start()); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for range 500 { // until it listens
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err == nil {
			_ = conn.Close()
			return at, end, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	end()
	return "", nil, errors.New("caddy does not listen")
}
