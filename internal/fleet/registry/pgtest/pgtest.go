// Package pgtest runs a PostgreSQL server for tests: the programs of Debian's package postgresql,
// a temporary directory, a Unix socket and no port.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a running PostgreSQL server.
type Cluster struct {
	dir string
	bin string
	as  *syscall.Credential // PostgreSQL refuses to be root
}

// patience bounds each step.
const patience = time.Minute

// ErrMissing is the error of Start where PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// Start starts a PostgreSQL server. The caller calls Stop.
func Start(ctx context.Context) (*Cluster, error) {
	bin, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "atoll-pg-") // short: the name of a socket has 107 bytes
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin}
	if err := c.prepareData(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(ctx))
	}
	return c, nil
}

// findPrograms returns the directory of the newest PostgreSQL programs.
func findPrograms() (string, error) {
	list, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	version := func(name string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(name))))
		return n
	}
	if len(list) > 0 {
		return filepath.Dir(slices.MaxFunc(list, func(a, b string) int { return version(a) - version(b) })), nil
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrMissing
	}
	return filepath.Dir(initdb), nil
}

// prepareData creates the data directory.
func (c *Cluster) prepareData(ctx context.Context) error {
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			u, err = user.Lookup("nobody")
		}
		if err != nil {
			return err
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(c.dir, int(uid), int(gid))); err != nil {
			return err
		}
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return c.run(ctx, "initdb", "--pgdata", c.dataDir(), "--auth", "trust", "--username", "atoll", "--encoding", "UTF8", "--no-locale", "--no-sync")
}

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	said, err := os.Create(filepath.Join(c.dir, name+".out")) // a pipe would be held open by background processes
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	options := "-k " + c.dir + " -c listen_addresses= -c fsync=off -c max_connections=400 -c unix_socket_permissions=0777"
	if err := os.Chmod(c.dir, 0o711); err != nil { // other users connect to the socket
		return err
	}
	return c.run(ctx, "pg_ctl", "start", "--wait", "--pgdata", c.dataDir(), "--log", filepath.Join(c.dir, "log"), "--options", options)
}

// Restart ends the server as a crash would, and starts it again.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Down(ctx); err != nil {
		return err
	}
	return c.start(ctx)
}

// Down ends the server as a crash would.
func (c *Cluster) Down(ctx context.Context) error {
	return c.run(ctx, "pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", c.dataDir())
}

// Up starts the server after Down.
func (c *Cluster) Up(ctx context.Context) error { return c.start(ctx) }

// Stop ends the server and removes its files.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.Down(ctx)
	if _, serr := os.Stat(filepath.Join(c.dataDir(), "postmaster.pid")); errors.Is(serr, os.ErrNotExist) {
		err = nil // it did not run
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// URL returns the address of a schema, for atoll's registry.
func (c *Cluster) URL(schema string) string {
	q := url.Values{"host": {c.dir}, "search_path": {schema}}
	return "postgres://atoll@/postgres?" + q.Encode()
}

// Schema creates a schema, if it is missing, and returns its address.
func Schema(ctx context.Context, base, schema string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), exe(ctx, base, "create schema if not exists "+pgx.Identifier{schema}.Sanitize())
}

// Drop removes a schema with its content.
func Drop(ctx context.Context, base, schema string) error {
	return exe(ctx, base, "drop schema if exists "+pgx.Identifier{schema}.Sanitize()+" cascade")
}

// exe runs one statement.
func exe(ctx context.Context, base, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, text)
	return errors.Join(err, conn.Close(ctx))
}
