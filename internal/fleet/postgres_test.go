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

// postgresVar is the environment variable with the address of the PostgreSQL server for
// the registries of this package's tests. If it is empty, registries are files.
const postgresVar = "ATOLL_FLEET_POSTGRES"

// testLease is the duration of a server's lease in tests.
const testLease = 3 * time.Second

// schemaName returns the PostgreSQL schema for the registry of a home.
func schemaName(home string) string {
	sum := sha256.Sum256([]byte(home))
	return "home_" + hex.EncodeToString(sum[:8])
}

// withPostgres sets a PostgreSQL registry in opts if $ATOLL_FLEET_POSTGRES is set: one
// for each home.
func withPostgres(opts Options) Options {
	base := os.Getenv(postgresVar)
	if base == "" || opts.Registry != "" {
		return opts
	}
	address, err := pgtest.Schema(context.Background(), base, schemaName(opts.Home))
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

// skipOnPostgres skips a test if registries are in PostgreSQL.
func skipOnPostgres(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(postgresVar) != "" {
		t.Skip(why)
	}
}

// startPostgres starts a PostgreSQL server for a test.
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

// TestOnPostgres runs the other tests of this package again with registries in
// PostgreSQL.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv(postgresVar) != "" {
		t.Skip("it is what runs now")
	}
	if testing.Short() {
		t.Skip("the race detector has seen these tests with SQLite, and several servers at one PostgreSQL by TestServers*: left out by -short")
	}
	c := startPostgres(t)
	args := []string{"-test.v", "-test.skip=" + strings.Join(testsWithoutPostgres, "|"), "-test.timeout=20m", "-rapid.checks=10"}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), postgresVar+"="+c.URL("public"))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	passed, skipped := 0, 0
	var failed []string
	for line := range strings.Lines(output.String()) {
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
		t.Errorf("%v: %s\n%s", err, strings.Join(failed, "\n"), output.String())
	}
	if passed < 120 {
		t.Errorf("only %d tests ran", passed)
	}
}

// testsWithoutPostgres are patterns of tests that do not use the registry or start
// their own PostgreSQL.
var testsWithoutPostgres = []string{
	"^TestOnPostgres$", "^TestServers", "^TestSuiteInMemory$", "^Test(Deep|Racing|DiskQuota|ManySecrets|Tenants)", "^TestHistoryOfOwnerIsBounded$", "^Fuzz",
}

// waitUntilReconciled waits until the fleet has reconciled everything that dead
// processes left.
func waitUntilReconciled(t *testing.T, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*f.opts.lease+time.Minute)
	defer cancel()
	testenv.Poll(ctx, func() bool { // Reconcile fails once ctx is done
		n := 0
		must(t, f.Reconcile(ctx))
		if f.registry.Postgres != nil {
			must(t, f.registry.DB.QueryRowContext(ctx, "select count(*) from instances where id <> ?", f.member.ID()).Scan(&n))
		}
		return n == 0
	})
}
