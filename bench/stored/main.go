// Command stored measures virtual sandboxes that are stored on disk, behind a server of its own
// process: the latency of a command beside an empty request, and what many sandboxes cost.
//
//	go run ./bench/stored                    # two tables on standard output
//	go run ./bench/stored -sandboxes 1000    # fewer
//	go run ./bench/stored -bench             # lines for benchstat
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

func main() {
	serve := flag.String("serve", "", "be the server of this home (internal)")
	memory := flag.Bool("memory", false, "with -serve: sandboxes in memory only")
	count := flag.Int("sandboxes", 10_000, "how many stored sandboxes")
	rounds := flag.Int("rounds", 1000, "commands of each kind")
	asBench := flag.Bool("bench", false, "print lines for benchstat")
	dir := flag.String("dir", "", "directory for the homes; empty: a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *serve != "" {
		err = serveHome(ctx, *serve, *memory)
	} else {
		b := &benchmark{count: *count, rounds: *rounds, dir: *dir}
		if err = b.run(ctx); err == nil {
			err = b.print(os.Stdout, *asBench)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/stored:", err)
		os.Exit(1)
	}
}

// socketOf returns the path of the server's socket in a home.
func socketOf(home string) string { return filepath.Join(home, "bench.sock") }

// serveHome is the server, until its standard input or ctx ends.
func serveHome(ctx context.Context, home string, memory bool) error {
	d := &virtual.Driver{SealOthers: true}
	if !memory {
		d.Dir = filepath.Join(home, "sandboxes")
	}
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Drivers: []atoll.Driver{d}})
	if err != nil {
		return err
	}
	s := api.New(api.Options{Fleet: f, Limits: api.Limits{Rate: -1, Concurrent: -1}})
	l, err := api.ListenUnix(socketOf(home))
	if err != nil {
		return err
	}
	leading, stop := context.WithCancel(ctx)
	defer stop()
	led, served := make(chan error, 1), make(chan error, 1)
	go func() { led <- f.Run(leading) }()
	go func() { served <- s.Serve(l) }()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin) // ends with the parent
	stop()
	err = errors.Join(err, s.Shutdown(context.WithoutCancel(ctx)), <-served)
	if e := <-led; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, f.Close(context.WithoutCancel(ctx)), d.Close())
}

// figure is one measured value.
type figure struct {
	name  string
	value float64
	unit  string
	floor string // name of the figure that it is compared with; empty: none
	all   []float64
}

// benchmark measures one home with many sandboxes.
type benchmark struct {
	count, rounds int
	dir           string
	figures       []figure
}

func (b *benchmark) add(name string, value float64, unit, floor string) {
	b.figures = append(b.figures, figure{name: name, value: value, unit: unit, floor: floor})
}

// addTimes adds the median of durations.
func (b *benchmark) addTimes(name string, took []time.Duration, floor string) {
	all := make([]float64, len(took))
	for i, t := range took {
		all[i] = float64(t.Nanoseconds()) / 1e3
	}
	slices.Sort(all)
	b.figures = append(b.figures, figure{name: name, value: all[len(all)/2], unit: "µs", floor: floor, all: all})
}

// measureTimes calls f n times, after a tenth of that to warm up.
func measureTimes(n int, f func() error) ([]time.Duration, error) {
	for range (n + 9) / 10 {
		if err := f(); err != nil {
			return nil, err
		}
	}
	took := make([]time.Duration, n)
	for i := range took {
		begun := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took[i] = time.Since(begun)
	}
	return took, nil
}

func (b *benchmark) run(ctx context.Context) (err error) {
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "atoll-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	}
	if err := b.measureCommands(ctx); err != nil {
		return err
	}
	return b.measureMany(ctx)
}

// server is a process that serves a home.
type server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	c     *client.Client
	plain *http.Client
}

func startServer(ctx context.Context, home string, args ...string) (*server, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	_ = os.Remove(socketOf(home)) // of a server before; it may be missing
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"-serve", home}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("the server did not start: %q %w", line, err), cmd.Wait())
	}
	c, err := client.New(client.Options{Host: "unix://" + socketOf(home)})
	plain := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socketOf(home))
	}}}
	return &server{cmd, in, c, plain}, err
}

func (s *server) stop() error {
	s.plain.CloseIdleConnections()
	return errors.Join(s.c.Close(), s.stdin.Close(), s.cmd.Wait())
}

// sendEmpty sends a request that the server answers at once: the cost of the transport.
func (s *server) sendEmpty(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://atoll/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := s.plain.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// The figure that others are compared with.
const emptyRequest = "an empty request"

// measureCommands measures commands in one sandbox of each kind.
func (b *benchmark) measureCommands(ctx context.Context) (err error) {
	stored, err := startServer(ctx, filepath.Join(b.dir, "commands"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stored.stop()) }()
	volatile, err := startServer(ctx, filepath.Join(b.dir, "memory"), "-memory")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, volatile.stop()) }()
	took, err := measureTimes(b.rounds, func() error { return stored.sendEmpty(ctx) })
	if err != nil {
		return err
	}
	b.addTimes(emptyRequest, took, "")
	for _, k := range []struct {
		name   string
		s      *server
		sealed bool
		cmd    atoll.Cmd
	}{
		{"true, in memory", volatile, false, atoll.Cmd{Args: []string{"true"}}},
		{"true, stored", stored, false, atoll.Cmd{Args: []string{"true"}}},
		{"true in the session, stored", stored, false, atoll.Cmd{Shell: "true", Session: true}},
		{"echo x > /f, stored", stored, false, atoll.Cmd{Shell: "echo $RANDOM > /f"}},
		{"true, stored, sealed", stored, true, atoll.Cmd{Args: []string{"true"}}},
		{"echo x > /f, stored, sealed", stored, true, atoll.Cmd{Shell: "echo $RANDOM > /f"}},
	} {
		var spec atoll.Spec
		if k.sealed {
			spec.Runtime = virtual.Sealed
		}
		sb, err := k.s.c.Create(ctx, spec)
		if k.sealed && errors.Is(err, atoll.ErrUnsupported) {
			fmt.Fprintln(os.Stderr, "no atoll-worker: sealed sandboxes are left out ('make build', then ATOLL_HELPERS=.cache/helpers)")
			continue
		}
		if err != nil {
			return err
		}
		took, err := measureTimes(b.rounds, func() error {
			exit, err := sb.Exec(ctx, k.cmd)
			if err == nil && exit.Code != 0 {
				err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		b.addTimes(k.name, took, emptyRequest)
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureMany measures many stored sandboxes.
func (b *benchmark) measureMany(ctx context.Context) (err error) {
	home := filepath.Join(b.dir, "many")
	s, err := startServer(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	before, err := weighProcess(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	disk, files, err := weighDirectory(home)
	if err != nil {
		return err
	}
	begun := time.Now()
	for i := range b.count {
		cfg := atoll.Config{Spec: atoll.Spec{Name: nameOf(i)}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
		sb, err := s.c.CreateSandbox(ctx, cfg)
		if err != nil {
			return err
		}
		if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo $HOSTNAME > /note; x=1", Session: true}); err != nil {
			return err
		}
	}
	b.add("create and write a file", float64(time.Since(begun).Microseconds())/float64(b.count), "µs", "")
	time.Sleep(idleTime)
	if err := b.addWeights(s, "", before); err != nil {
		return err
	}
	size, number, err := weighDirectory(home)
	if err != nil {
		return err
	}
	b.add("disk of each", float64(size-disk)/float64(b.count)/1e3, "kB", "")
	b.add("files of each", float64(number-files)/float64(b.count), "", "")
	if err := b.measureListing(ctx, s, ""); err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	begun = time.Now()
	if s, err = startServer(ctx, home); err != nil {
		return err
	}
	b.add("restart of the server", float64(time.Since(begun).Milliseconds()), "ms", "")
	if err := b.measureListing(ctx, s, ", after a restart"); err != nil {
		return err
	}
	for i := range b.count {
		sb, err := s.c.Sandbox(ctx, nameOf(i))
		if err != nil {
			return err
		}
		if _, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"true"}}); err != nil {
			return err
		}
	}
	time.Sleep(idleTime)
	return b.addWeights(s, ", after a restart and a use", before)
}

// idleTime is the time after which the sandboxes are idle.
const idleTime = 13 * time.Second

func nameOf(i int) string { return "box-" + strconv.Itoa(i) }

// addWeights adds what the server uses for its idle sandboxes.
func (b *benchmark) addWeights(s *server, when string, before weight) error {
	w, err := weighProcess(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.add("memory of each"+when, float64(w.memory-before.memory)/float64(b.count)/1e3, "kB", "")
	b.add("descriptors of all"+when, float64(w.descriptors-before.descriptors), "", "")
	return nil
}

// measureListing measures looking for sandboxes among many.
func (b *benchmark) measureListing(ctx context.Context, s *server, when string) error {
	n := 0
	took, err := measureTimes(10, func() error {
		list, err := s.c.Sandboxes(ctx, client.Filter{})
		n = len(list)
		return err
	})
	if err != nil {
		return err
	}
	if n != b.count {
		return fmt.Errorf("%d sandboxes listed of %d", n, b.count)
	}
	b.addTimes("list all"+when, took, "")
	took, err = measureTimes(50, func() error {
		_, _, err := s.c.SandboxPage(ctx, client.Filter{}, "", 100)
		return err
	})
	if err != nil {
		return err
	}
	b.addTimes("list a page of 100"+when, took, emptyRequest)
	i := 0
	took, err = measureTimes(100, func() error {
		i++
		_, err := s.c.Sandbox(ctx, nameOf(i*97%b.count))
		return err
	})
	if err != nil {
		return err
	}
	b.addTimes("get by name"+when, took, emptyRequest)
	took, err = measureTimes(20, func() error {
		i++
		list, err := s.c.Sandboxes(ctx, client.Filter{Name: nameOf(i * 97 % b.count)})
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("%d sandboxes of one name", len(list))
		}
		return err
	})
	if err != nil {
		return err
	}
	b.addTimes("list by name"+when, took, emptyRequest)
	return nil
}

// weight is what a process uses.
type weight struct {
	memory      int64 // resident bytes
	descriptors int
}

func weighProcess(pid int) (w weight, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				return w, err
			}
			w.memory = n << 10
		}
	}
	list, err := os.ReadDir(filepath.Join(proc, "fd"))
	w.descriptors = len(list)
	return w, err
}

// weighDirectory returns the allocated bytes and the number of files and directories below a
// directory, without the registry.
func weighDirectory(dir string) (size int64, files int, err error) {
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(e.Name(), "atoll.db") {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files++
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size += st.Blocks * 512
		}
		return nil
	})
	return size, files, err
}

// print prints the figures as a table, or each as a line for benchstat.
func (b *benchmark) print(out io.Writer, asBench bool) error {
	if asBench {
		return b.printBench(out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\tmedian\t5 %\t95 %\t\tto "+emptyRequest+"\t")
	floors := make(map[string]float64)
	for _, f := range b.figures {
		floors[f.name] = f.value
		low, high, ratio := "", "", ""
		if len(f.all) > 0 {
			low, high = fmt.Sprintf("%.0f", f.all[len(f.all)/20]), fmt.Sprintf("%.0f", f.all[len(f.all)*19/20])
		}
		if f.floor != "" {
			ratio = fmt.Sprintf("%.2f × (+%.0f µs)", f.value/floors[f.floor], f.value-floors[f.floor])
		}
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\t%s\t%s\t\n", f.name, f.value, low, high, f.unit, ratio)
	}
	return w.Flush()
}

func (b *benchmark) printBench(out io.Writer) error {
	names := strings.NewReplacer(" ", "-", ",", "", ">", "to", "/", "")
	for _, f := range b.figures {
		unit := f.unit
		value := f.value
		switch unit {
		case "µs":
			unit, value = "ns/op", value*1e3
		case "ms":
			unit, value = "ns/op", value*1e6
		case "kB":
			unit, value = "B", value*1e3
		case "":
			unit = "count"
		}
		if _, err := fmt.Fprintf(out, "BenchmarkStored/%s 1 %.1f %s\n", names.Replace(f.name), value, unit); err != nil {
			return err
		}
	}
	return nil
}
