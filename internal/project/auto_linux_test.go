package project_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// teller is a sandbox that tells what a test wants.
type teller struct {
	atoll.Sandbox
	notices chan atoll.NoticeKind
	files   chan atoll.FileEvent
}

func (s *teller) ID() string { return "teller" }

func (s *teller) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case k, ok := <-s.notices:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			if err := f(atoll.Notice{Kind: k}); err != nil {
				return err
			}
		}
	}
}

func (s *teller) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-s.files:
			if err := f(e); err != nil {
				return err
			}
		}
	}
}

func (s *teller) Import(ctx context.Context, dir string, tar io.Reader) error {
	_, err := io.Copy(io.Discard, tar)
	return err
}

// follow runs an Auto on a sandbox, and returns when it synced.
func follow(t *testing.T, a project.AutoSync, tells func(s *teller)) (at []time.Duration, err error) {
	t.Helper()
	start := time.Now()
	s := &teller{notices: make(chan atoll.NoticeKind), files: make(chan atoll.FileEvent)}
	answer := a.Sync
	a.Sync = func(ctx context.Context) error {
		at = append(at, time.Since(start))
		if answer != nil {
			return answer(ctx)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx, s) }()
	tells(s)
	time.Sleep(time.Hour)
	cancel()
	return at, <-ended
}

func TestAuto(t *testing.T) {
	const s = time.Second
	commit := atoll.FileEvent{Op: atoll.FileWritten, Path: "/workspace/.git/logs/HEAD"}
	for name, c := range map[string]struct {
		mode  project.SyncMode
		tells func(b *teller)
		want  []time.Duration
	}{
		"IdleSyncsOnce": {project.AutoIdle, func(b *teller) {
			b.notices <- atoll.NoticeActive
			time.Sleep(10 * s)
			b.notices <- atoll.NoticeIdle
		}, []time.Duration{12 * s}},
		"ActiveAgainDoesNotSync": {project.AutoIdle, func(b *teller) {
			b.notices <- atoll.NoticeIdle
			time.Sleep(s)
			b.notices <- atoll.NoticeActive
		}, nil},
		"BeginningIsIdle": {project.AutoIdle, func(b *teller) { b.notices <- atoll.NoticeReady }, []time.Duration{2 * s}},
		"OthersAreNoReason": {project.AutoIdle, func(b *teller) {
			b.notices <- atoll.NoticePortOpened
			b.notices <- atoll.NoticeProcessEnded
		}, nil},
		"CommitsAreOneSync": {project.AutoCommit, func(b *teller) {
			for range 5 {
				b.files <- commit
				time.Sleep(s)
			}
			time.Sleep(10 * s)
			b.files <- commit
		}, []time.Duration{6 * s, 17 * s}},
		"BusyDoesNotStarve": {project.AutoCommit, func(b *teller) {
			for range 30 {
				b.files <- commit
				time.Sleep(s)
			}
		}, []time.Duration{19 * s, 31 * s}},
		"IdleIsAReasonToo": {project.AutoCommit, func(b *teller) { b.notices <- atoll.NoticeIdle }, []time.Duration{2 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, err := follow(t, project.AutoSync{Mode: c.mode}, c.tells)
				is(t, err, context.Canceled)
				if !slices.Equal(at, c.want) {
					t.Errorf("synced at %v, want %v", at, c.want)
				}
			})
		})
	}
}

func TestAutoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := project.AutoSync{Mode: project.AutoIdle, Sync: func(context.Context) error { return io.ErrClosedPipe }}
		_, err := follow(t, a, func(b *teller) { b.notices <- atoll.NoticeIdle })
		is(t, err, io.ErrClosedPipe)

		_, err = follow(t, project.AutoSync{Mode: project.AutoIdle}, func(b *teller) { close(b.notices) })
		is(t, err, io.ErrUnexpectedEOF)
		_, err = follow(t, project.AutoSync{Mode: project.AutoCommit}, func(b *teller) { close(b.notices) })
		is(t, err, io.ErrUnexpectedEOF)

		if at, err := follow(t, project.AutoSync{}, func(*teller) {}); err != nil || at != nil {
			t.Errorf("manual: %v, %v", at, err)
		}
		_, err = follow(t, project.AutoSync{Mode: "often"}, func(*teller) {})
		is(t, err, atoll.ErrInvalid)
	})
}

func TestAutoGoesOnAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{project.ErrNoNewWork, fmt.Errorf("sync: %w", project.ErrDirty), nil}
		var told []error
		a := project.AutoSync{Mode: project.AutoIdle, Report: func(err error) { told = append(told, err) }}
		a.Sync = func(context.Context) error {
			err := answers[0]
			answers = answers[1:]
			return err
		}
		_, err := follow(t, a, func(b *teller) {
			for range 3 {
				b.notices <- atoll.NoticeIdle
				time.Sleep(10 * time.Second)
			}
		})
		is(t, err, context.Canceled)
		if len(answers) != 0 || len(told) != 1 || !errors.Is(told[0], project.ErrDirty) {
			t.Errorf("left %v, told %v", answers, told)
		}
	})
}
