package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// onPostgres, in the environment, is the address of the PostgreSQL that the tests
// of this package have their registries in. Empty: they are files.
const onPostgres = "ATOLL_FLEET_POSTGRES"

// testLease is how long a server of a test may not be heard of.
const testLease = 3 * time.Second

// schemaOf names the registry of a home.
func schemaOf(home string) string {
	sum := sha256.Sum256([]byte(home))
	return "home_" + hex.EncodeToString(sum[:8])
}

// placed puts the registry of a test into PostgreSQL, if that is where they are:
// one for each home.
func placed(opts Options) Options {
	base := os.Getenv(onPostgres)
	if base == "" || opts.Registry != "" {
		return opts
	}
	address, err := pgtest.Schema(context.Background(), base, schemaOf(opts.Home))
	if err != nil {
		panic(err)
	}
	opts.Registry = address
	opts.oneHost = true
	if opts.lease == 0 {
		opts.lease = testLease
	}
	return opts
}

// filesOnly skips a test where registries are in PostgreSQL.
func filesOnly(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(onPostgres) != "" {
		t.Skip(why)
	}
}

// startPostgres starts a PostgreSQL for a test.
func startPostgres(t testing.TB) *pgtest.Cluster {
	t.Helper()
	testenv.Real(t, "postgres")
	c, err := pgtest.Start(context.Background())
	if errors.Is(err, pgtest.ErrMissing) {
		testenv.Skip(t, "postgres", "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestOnPostgres runs the other tests of this package once more, with their
// registries in PostgreSQL.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv(onPostgres) != "" {
		t.Skip("it is what runs now")
	}
	if testing.Short() {
		t.Skip("the race detector has seen these tests with SQLite, and several servers at one PostgreSQL by TestServers*: left out by -short")
	}
	c := startPostgres(t)
	args := []string{"-test.v", "-test.skip=" + strings.Join(apart, "|"), "-test.timeout=20m", "-rapid.checks=10"}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), onPostgres+"="+c.URL("public"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	passed, skipped := 0, 0
	var failed []string
	for line := range strings.Lines(said.String()) {
		switch {
		case strings.HasPrefix(line, "--- PASS"):
			passed++
		case strings.HasPrefix(line, "--- SKIP"):
			skipped++
		case strings.Contains(line, "--- FAIL"):
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	t.Logf("%d tests passed, %d were skipped", passed, skipped)
	if err != nil {
		t.Errorf("%v: %s\n%s", err, strings.Join(failed, "\n"), said.String())
	}
	if passed < 120 {
		t.Errorf("only %d tests ran", passed)
	}
}

// apart are tests that have nothing to do with a registry, or have one of their
// own.
var apart = []string{
	"^TestOnPostgres$", "^TestServers", "^TestSuiteInMemory$", "^Test(Deep|Racing|DiskQuota|ManySecrets|Tenants)", "^TestTheHistoryOfAnOwnerIsBounded$", "^Fuzz",
}

// settled waits until the fleet has settled what all other processes have left:
// they died.
func settled(t *testing.T, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*f.opts.lease+time.Minute)
	defer cancel()
	for n := 1; n > 0; {
		must(t, f.Reconcile(ctx))
		if n = 0; f.registry.Postgres != nil {
			must(t, f.registry.DB.QueryRowContext(ctx, "select count(*) from instances where id <> ?", f.member.ID()).Scan(&n))
			time.Sleep(f.opts.lease / 20) // the database tells nobody of time that passes
		}
	}
}
