// Package pgtest gives tests a PostgreSQL of their own: the programs of Debian's
// package postgresql, a directory that is removed, a socket in it and no port.
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

// Cluster is a PostgreSQL that runs.
type Cluster struct {
	dir string
	bin string
	as  *syscall.Credential // PostgreSQL refuses to be root
}

// patience is how long each step may take.
const patience = time.Minute

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// Start makes a PostgreSQL that runs until Stop.
func Start(ctx context.Context) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "atoll-pg-") // short: the name of a socket has 107 bytes
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(ctx))
	}
	return c, nil
}

// programs finds the directory of PostgreSQL's programs, the newest there is.
func programs() (string, error) {
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

// prepare makes the directory of the data.
func (c *Cluster) prepare(ctx context.Context) error {
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
	return c.run(ctx, "initdb", "--pgdata", c.data(), "--auth", "trust", "--username", "atoll", "--encoding", "UTF8", "--no-locale", "--no-sync")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	said, err := os.Create(filepath.Join(c.dir, name+".out")) // no pipe: what goes on in the background would hold it
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
	if err := os.Chmod(c.dir, 0o711); err != nil { // who isn't its user reaches the socket
		return err
	}
	return c.run(ctx, "pg_ctl", "start", "--wait", "--pgdata", c.data(), "--log", filepath.Join(c.dir, "log"), "--options", options)
}

// Restart ends it as a crash would, and starts it again.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Down(ctx); err != nil {
		return err
	}
	return c.start(ctx)
}

// Down ends it as a crash would.
func (c *Cluster) Down(ctx context.Context) error {
	return c.run(ctx, "pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", c.data())
}

// Up starts it again after Down.
func (c *Cluster) Up(ctx context.Context) error { return c.start(ctx) }

// Stop ends it and removes what it had.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.Down(ctx)
	if _, serr := os.Stat(filepath.Join(c.data(), "postmaster.pid")); errors.Is(serr, os.ErrNotExist) {
		err = nil // it did not run
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// URL is the address of a schema in its database, as atoll's registry takes it.
func (c *Cluster) URL(schema string) string {
	q := url.Values{"host": {c.dir}, "search_path": {schema}}
	return "postgres://atoll@/postgres?" + q.Encode()
}

// Schema makes a schema, if it is missing, and returns its address.
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

// Drop removes a schema with all that it has.
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
