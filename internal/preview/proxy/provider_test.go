package proxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// shelf is a provider that remembers what was published.
type shelf struct {
	mu    sync.Mutex
	hosts []string
	calls int
	err   error
}

func (s *shelf) Publish(_ context.Context, routes []proxy.Route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.err != nil {
		return s.err
	}
	s.hosts = nil
	for _, r := range routes {
		s.hosts = append(s.hosts, r.Host)
	}
	return nil
}

func (s *shelf) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.hosts, " ")
}

func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hosts: []string{"left.by.a.dead.process"}}
		p := &proxy.Publisher{Names: proxy.Names{Domains: []string{"example.com"}}, Provider: s}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		is := func(want string) {
			t.Helper()
			synctest.Wait()
			time.Sleep(time.Minute) // of the bubble's clock
			synctest.Wait()
			if got := s.now(); got != want {
				t.Errorf("published is %q, want %q", got, want)
			}
		}
		is("")
		web, db := newIsland("s1"), newIsland("s2")
		web.open(3000, "")
		p.Add(ctx, "web", web)
		p.Add(ctx, "db", db)
		p.Add(ctx, "not_a_label", newIsland("s3"))
		is("3000-web.example.com db.example.com web.example.com")
		web.open(80, "")
		web.close(3000)
		db.open(5432, "")
		is("5432-db.example.com 80-web.example.com db.example.com web.example.com")
		p.Remove("db")
		p.Remove("never was")
		is("80-web.example.com web.example.com")
		s.mu.Lock()
		s.err = errors.New("caddy is being restarted")
		s.mu.Unlock()
		web.close(80)
		is("80-web.example.com web.example.com")
		if p.Err() == nil {
			t.Error("Err does not report the failure")
		}
		s.mu.Lock()
		s.err = nil
		before := s.calls
		s.mu.Unlock()
		is("web.example.com")
		s.mu.Lock()
		tried := s.calls - before
		s.mu.Unlock()
		const regular = 4 // in a minute, of what has not changed
		if p.Err() != nil || tried < 1 || tried > 2+regular {
			t.Errorf("after %d calls: %v", tried, p.Err())
		}
		// Its wire is lost and comes back.
		web.mu.Lock()
		for _, c := range web.tell {
			close(c)
		}
		web.tell = nil
		web.mu.Unlock()
		is("web.example.com")
		s.mu.Lock()
		s.hosts = nil // it reads its configuration anew, and forgets
		s.mu.Unlock()
		is("web.example.com")
		web.open(81, "")
		is("81-web.example.com web.example.com")
		// Many changes at once are few publications.
		s.mu.Lock()
		before = s.calls
		s.mu.Unlock()
		for port := range 50 {
			web.open(1000+port, "")
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		n, hosts := s.calls-before, len(slices.Compact(slices.Clone(s.hosts)))
		s.mu.Unlock()
		if n > 3+regular || hosts != 52 {
			t.Errorf("50 ports were published in %d calls: %d hosts", n, hosts)
		}
		cancel()
		if err := <-done; err != nil || s.now() != "" {
			t.Errorf("at the end: %v, %q", err, s.now())
		}
	})
}
