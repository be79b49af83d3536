package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// bareSession is the agent as a plain process that accepts many prompts.
type bareSession struct {
	bench   *bench
	seen    firstTokenWatcher
	io      *plainIO
	talk    agent.Conversation
	out     *bufio.Reader
	cmd     *exec.Cmd
	server  *http.Server
	started bool // it has had its first prompt
}

// startBareSession starts the process.
func (b *bench) startBareSession(ctx context.Context) (*bareSession, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &bareSession{bench: b, server: &http.Server{Handler: b.model, ReadHeaderTimeout: time.Minute}}
	go s.server.Serve(l) //nolint:errcheck // it ends with Close
	site := agent.Environment{Dir: filepath.Join(b.dir, "work"), State: filepath.Join(b.dir, "warm-state"), Model: "http://" + l.Addr().String(), Root: os.Getuid() == 0}
	if err := os.MkdirAll(site.Dir, 0o755); err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	turn := b.turn
	plan, err := b.agent.Plan(&turn, site)
	if err == nil {
		err = writeFiles(plan.Files)
	}
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	s.cmd = exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.program), plan.Args[0]), plan.Args[1:]...)
	s.cmd.Dir, s.cmd.Env = site.Dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + site.State}, plan.Env...)
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	s.io, s.out, s.talk = &plainIO{in: in, see: func(e agent.Event) { s.seen.handleEvent(e) }}, bufio.NewReader(out), b.agent.NewConversation(&turn, site)
	s.io.Send(plan.Stdin)
	return s, nil
}

// run sends a prompt and waits for its result.
func (s *bareSession) run() (turnTimes, error) {
	s.seen = firstTokenWatcher{}
	s.bench.model.reset()
	start := time.Now()
	if !s.started {
		s.started = true
		s.talk.Begin(s.io)
	} else if err := s.talk.Prompt(s.io, s.bench.turn.Prompt); err != nil {
		return turnTimes{}, err
	}
	for !s.talk.IsFinished() {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return turnTimes{}, fmt.Errorf("the bare agent has ended: %w", err)
		}
		s.talk.HandleLine(s.io, line[:len(line)-1])
	}
	return turnTimes{time.Since(start), s.seen.first.Sub(s.bench.model.firstSent())}, nil
}

func (s *bareSession) close() error {
	s.io.Close()
	_, _ = s.out.WriteTo(discard{}) // until the process ends
	return errors.Join(s.cmd.Wait(), s.server.Close())
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// runServedTurn runs a turn of a chat as a client sees it.
func (b *bench) runServedTurn(ctx context.Context, s *serverSite, chat string) (t turnTimes, err error) {
	var w firstTokenWatcher
	start := time.Now()
	rec, err := s.client.StartTurn(ctx, agent.Request{Agent: b.agent.Name(), Chat: chat, Turn: b.turn})
	if err != nil {
		return t, err
	}
	var end *agent.Result
	err = s.client.TurnEvents(ctx, rec.ID, 0, func(e agent.Event) error {
		w.handleEvent(e)
		end = e.Result
		return nil
	})
	t = turnTimes{time.Since(start), w.first.Sub(b.model.firstSent())}
	if err == nil && (end == nil || end.Outcome != agent.OK) {
		err = fmt.Errorf("the turn failed: %+v", end)
	}
	return t, err
}

// runLoad runs turns of many chats at once, each in a process that is kept warm, and prints what the server and its agents hold after each
// tenth of the turns.
func (b *bench) runLoad(ctx context.Context, chats, turns int) (err error) {
	site, err := b.startSite(ctx, chats)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	each := max(1, turns/chats)
	var all []turnTimes
	var mu sync.Mutex
	for part := range 10 {
		from, to := each*part/10, each*(part+1)/10
		errs := make([]error, chats)
		var wg sync.WaitGroup
		for c := range chats {
			wg.Go(func() {
				for range to - from {
					t, err := b.runServedTurn(ctx, site, fmt.Sprint("load-", c))
					if err != nil {
						errs[c] = err
						return
					}
					mu.Lock()
					all = append(all, t)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		runtime.GC()
		h, err := readHoldings()
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "load/%s %d chats, %d turns: %d MiB of memory, %d descriptors, %d goroutines, %d processes with %d MiB\n",
			b.name, chats, len(all), h.memory>>20, h.files, runtime.NumGoroutine(), h.processes, h.theirs>>20)
	}
	median, _ := medianTimes(all)
	fmt.Fprintf(os.Stdout, "load/%s median of a turn %.2f ms\n", b.name, toMilliseconds(median))
	return nil
}

// holdings are what this process and its descendants hold.
type holdings struct {
	memory    int64 // resident, of this process, in bytes
	files     int   // descriptors of this process
	processes int   // descendants
	theirs    int64 // their resident memory, in bytes
}

func readHoldings() (h holdings, err error) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return h, err
	}
	h.files = len(fds)
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return h, err
	}
	parent, pages := map[int]int{}, map[int]int64{}
	for _, name := range all {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has exited
		}
		pid, rest, _ := strings.Cut(string(data), " ")
		fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
		id, err1 := strconv.Atoi(pid)
		up, err2 := strconv.Atoi(fields[1])
		rss, err3 := strconv.ParseInt(fields[21], 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			return h, fmt.Errorf("%s: %w", name, err)
		}
		parent[id], pages[id] = up, rss
	}
	page := int64(os.Getpagesize())
	h.memory = pages[os.Getpid()] * page
	for id := range parent {
		for up := parent[id]; up > 1; up = parent[up] {
			if up == os.Getpid() {
				h.processes++
				h.theirs += pages[id] * page
				break
			}
		}
	}
	return h, nil
}
