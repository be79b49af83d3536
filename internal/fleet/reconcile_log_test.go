package fleet

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// brokenDriver works nowhere.
type brokenDriver struct {
	*virtual.Driver

	name string
}

func (d brokenDriver) Name() string { return d.name }

func (d brokenDriver) Probe(context.Context) (atoll.Features, error) {
	return atoll.Features{}, atoll.ErrUnavailable
}

// TestBrokenDriversAreReportedOnce checks that a server warns once, and only if its default driver does
// not work.
func TestBrokenDriversAreReportedOnce(t *testing.T) {
	for _, c := range []struct {
		defaults string
		want     int
	}{{"broken", 1}, {"virtual", 0}} {
		t.Run(c.defaults, func(t *testing.T) {
			home := t.TempDir()
			works := &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
			var out bytes.Buffer
			f := openFleet(t, Options{
				Home: home, Default: c.defaults, Drivers: []atoll.Driver{works, brokenDriver{works, "broken"}, brokenDriver{works, "other"}},
				Log: slog.New(slog.NewTextHandler(&out, nil)),
			})
			for range 3 {
				if err := f.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := strings.Count(out.String(), "does not work here"); n != c.want {
				t.Errorf("%d warnings, want %d:\n%s", n, c.want, out.String())
			}
		})
	}
}
