package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	if home := os.Getenv(crashHomeVar); home != "" {
		fmt.Fprintln(os.Stderr, "the child of a crash test ended:", runCrashChild(home))
		os.Exit(1)
	}
	if step := os.Getenv(archiveKillVar); step != "" {
		fmt.Fprintln(os.Stderr, runArchiveKillChild(os.Getenv(archiveKillHomeVar), step))
		os.Exit(1)
	}
	// A directory that vfs.Host no longer needs is closed by its finalizer, whenever that runs.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.runFinalizers"))
}

// openFleet opens a fleet of the virtual driver that is closed when the test
// ends.
func openFleet(t testing.TB, opts Options) *Fleet {
	t.Helper()
	if opts.Home == "" {
		opts.Home = t.TempDir()
	}
	if opts.Drivers == nil {
		opts.Drivers = []atoll.Driver{&virtual.Driver{Dir: filepath.Join(opts.Home, "sandboxes")}}
	}
	f, err := Open(context.Background(), withPostgres(opts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFleet(t, f) })
	return f
}

func closeFleet(t testing.TB, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// asDriver makes an account a driver for atolltest.
type asDriver struct{ a *Account }

func (d asDriver) Name() string { return d.a.f.opts.Default }

func (d asDriver) Probe(ctx context.Context) (atoll.Features, error) {
	return d.a.f.findDriver(d.Name()).probe(ctx)
}

func (d asDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.a.Create(ctx, atoll.Config{Spec: spec})
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (d asDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	sb, err := d.a.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (d asDriver) List(ctx context.Context) ([]atoll.Status, error) {
	infos, err := d.a.List(ctx, Filter{})
	list := make([]atoll.Status, len(infos))
	for i := range infos {
		list[i] = infos[i].Status
	}
	return list, err
}

func TestSuiteInMemory(t *testing.T) {
	testenv.Logic(t)
	f := openFleet(t, Options{Drivers: []atoll.Driver{virtual.New()}})
	atolltest.Run(t, asDriver{f.Account(LocalCaller())})
}

func TestSuiteKept(t *testing.T) {
	testenv.Logic(t)
	f := openFleet(t, Options{})
	atolltest.Run(t, asDriver{f.Account(LocalCaller())})
}
