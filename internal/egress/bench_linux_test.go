package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// A program inside that connects again and again, or takes a gigabyte: this
// test binary, with what to do in its environment.
const benchInside = "ATOLL_BENCH_INSIDE"

// TestBenchInside is no test but that program.
func TestBenchInside(t *testing.T) {
	what, to, _ := strings.Cut(os.Getenv(benchInside), " ")
	if what == "" {
		return
	}
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			c, err := net.Dial("tcp", to)
			if err != nil {
				b.Fatal(err)
			}
			if what == "connect" {
				_, err = io.WriteString(c, "x\n")
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 2))
				}
			} else {
				b.SetBytes(gigabyte)
				_, err = io.CopyN(io.Discard, c, gigabyte)
			}
			if err != nil {
				b.Fatal(err)
			}
			_ = c.Close() // it is over
		}
	})
	fmt.Printf("RESULT %d ns %d bytes\n", r.NsPerOp(), r.Bytes)
}

const gigabyte = 1 << 30

// BenchmarkGate is what the whole way costs: redirection, guest, wire, gate; in
// comparison with the same server without it.
func BenchmarkGate(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("network namespaces that play the internet need root")
	}
	o := newOutside(b)
	box := newBox(b, o)
	box.gate(atoll.Network{Allow: []string{public}})
	echo, flood := o.listen(public+":7000"), o.listen(public+":7001")
	go each(echo, func(c net.Conn) { _, _ = io.CopyN(c, c, 2) })
	go each(flood, func(c net.Conn) { _, _ = io.Copy(c, zeros{}) })
	for _, what := range []string{"connect " + public + ":7000", "gigabyte " + public + ":7001"} {
		name, _, _ := strings.Cut(what, " ")
		b.Run(name+"/gate", func(b *testing.B) {
			exit, err := box.client.Exec(context.Background(), atoll.Cmd{Args: []string{os.Args[0], "-test.run", "^TestBenchInside$", "-test.benchtime", "1s"}, Dir: "/", Env: append(os.Environ(), benchInside+"="+what)})
			report(b, string(exit.Stdout)+string(exit.Stderr), err)
		})
		b.Run(name+"/direct", func(b *testing.B) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestBenchInside$", "-test.benchtime", "1s")
			cmd.Env = append(os.Environ(), benchInside+"="+what)
			var out strings.Builder
			cmd.Stdout = &out
			var err error
			o.do(func() { err = cmd.Start() })
			if err == nil {
				err = cmd.Wait()
			}
			report(b, out.String(), err)
		})
	}
	b.Run("memory", func(b *testing.B) {
		for b.Loop() { //nolint:revive // nothing takes time here
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", gatePID(b, box.dir)))
		if err != nil {
			b.Fatal(err)
		}
		var pss float64
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Pss:") {
				_, _ = fmt.Sscanf(line, "Pss: %f kB", &pss)
			}
		}
		b.ReportMetric(pss/1024, "MB-pss")
	})
}

// BenchmarkStart is what a gate costs before it is at work.
func BenchmarkStart(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("network namespaces that play the internet need root")
	}
	o := newOutside(b)
	box := newBox(b, o)
	for b.Loop() {
		c, err := box.start(atoll.Network{Allow: []string{public}})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := c.WaitForExit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func each(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			f(c)
		}()
	}
}

var result = regexp.MustCompile(`RESULT (\d+) ns (\d+) bytes`)

func report(b *testing.B, out string, err error) {
	b.Helper()
	var ns, bytes float64
	if m := result.FindString(out); err != nil || m == "" {
		b.Fatalf("%v: %s", err, out)
	} else if _, err := fmt.Sscanf(m, "RESULT %f ns %f bytes", &ns, &bytes); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ns, "ns/op")
	if bytes > 0 {
		b.ReportMetric(bytes/ns*1e9/1e6, "MB/s")
	}
}
