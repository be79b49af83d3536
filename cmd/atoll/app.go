package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// app is what all commands share: where the streams lead and what the global
// flags say.
type app struct {
	streams
	driverName string
	home       string
	json       bool
	quiet      bool
	config     *config
	configErr  error  // what is wrong with it
	hostFlag   string // of --host
	link       *link  // to the fleet; by client, once
	program    string // of atoll, to be a server in the background; empty: the one that runs

	made []atoll.Driver // by drivers, once: two ends of a copy may be one sandbox
}

const defaultDriver = "virtual"

// anyConfig marks commands that work even if the configuration is wrong.
var anyConfig = map[string]string{"config": "any"}

// configure reads the configuration and what the flags of a command say.
func (a *app) configure(cmd *cobra.Command) error {
	a.config, a.configErr = load(flagged(cmd))
	a.json = a.json || get[string](a.config, "output") == "json"
	a.driverName = get[string](a.config, "driver")
	a.home = get[string](a.config, "home")
	switch {
	case cmd.Annotations["config"] == "any" || cmd.Parent() != nil && cmd.Parent().Name() == "completion":
		return nil
	}
	return a.configErr
}

// homed reports that there is no directory to keep anything in.
func (a *app) homed() error {
	if a.home != "" {
		return nil
	}
	_, err := defaultHome()
	return err
}

func defaultHome() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/atoll", nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "atoll"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory to keep sandboxes in: set ATOLL_HOME or --home (%w)", err)
	}
	return filepath.Join(home, ".local", "share", "atoll"), nil
}

// drivers is the whole registry of drivers. What they keep is in home, so that
// the next call of atoll finds it. None of them does anything before it is used.
func drivers(home, dockerHost string, machines *microvm.Driver, cluster *kubernetes.Driver) []atoll.Driver {
	return []atoll.Driver{
		&virtual.Driver{Dir: filepath.Join(home, "sandboxes")},
		&namespace.Driver{Dir: filepath.Join(home, "namespace"), ImageDir: filepath.Join(home, "images")},
		machines,
		&docker.Driver{Dir: filepath.Join(home, "docker"), Host: dockerHost},
		cluster,
	}
}

// shared are the drivers whose sandboxes every server of a fleet reaches; those
// of the others are on one host.
var shared = []string{"kubernetes"}

// sharing reports whether this is one of several servers of a fleet.
func (a *app) sharing() bool { return get[string](a.config, "registry") != "" }

// all returns the drivers of this call.
func (a *app) all() []atoll.Driver {
	if a.made == nil {
		a.made = drivers(a.home, get[string](a.config, "docker.host"), a.config.machines(a.home), a.config.cluster(a.home))
		if a.sharing() {
			a.made = slices.DeleteFunc(a.made, func(d atoll.Driver) bool { return !slices.Contains(shared, d.Name()) })
		}
	}
	return a.made
}

// release ends what drivers run beside themselves.
func (a *app) release() error {
	var errs []error
	for _, d := range a.made {
		if c, ok := d.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	a.made = nil
	return errors.Join(errs...)
}

// driver returns the driver that is configured, of those of this machine.
func (a *app) driver() (atoll.Driver, error) {
	name := a.defaultDriver()
	var names []string
	for _, d := range a.all() {
		if d.Name() == name {
			return d, nil
		}
		names = append(names, d.Name())
	}
	if a.sharing() {
		return nil, fmt.Errorf("%w: driver %s: its sandboxes are on one host, and servers that share a registry need one that all of them reach: %s", atoll.ErrUnsupported, name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%w: driver %q%s; there is: %s", atoll.ErrNotFound, name, spell.Hint(name, names), strings.Join(names, ", "))
}

// sandboxes lists the caller's sandboxes, oldest first.
func (a *app) sandboxes(ctx context.Context, filter client.Filter) ([]atoll.Info, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Sandboxes(ctx, filter)
}

// open returns the one sandbox that key means: its name, its id, or the
// beginning of one of them.
func (a *app) open(ctx context.Context, key string) (*client.Sandbox, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	sb, err := c.Sandbox(ctx, key)
	if !errors.Is(err, atoll.ErrNotFound) {
		return sb, err
	}
	all, lerr := c.Sandboxes(ctx, client.Filter{})
	if lerr != nil {
		return nil, errors.Join(err, lerr)
	}
	var begins, names []string
	id := ""
	for _, i := range all {
		if key != "" && (strings.HasPrefix(i.ID, key) || strings.HasPrefix(i.Name, key)) {
			begins, id = append(begins, label(i.Status)), i.ID
		}
		names = append(names, label(i.Status))
	}
	switch len(begins) {
	case 1:
		return c.Sandbox(ctx, id)
	case 0:
		hint := "; 'atoll ls' shows what there is"
		if len(all) == 0 {
			hint = ": there are no sandboxes; 'atoll create' makes one"
		}
		return nil, fmt.Errorf("sandbox %q: %w%s%s", key, atoll.ErrNotFound, spell.Hint(key, names), hint)
	}
	return nil, fmt.Errorf("%w: %q is the beginning of %d sandboxes: %s", atoll.ErrInvalid, key, len(begins), strings.Join(begins, ", "))
}

// label is what people call a sandbox.
func label(s atoll.Status) string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

// print writes a result as indented JSON.
func (a *app) print(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// plain makes text from a sandbox safe for a terminal and a table cell.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, s)
}

// progress tells a person on stderr what goes on.
func (a *app) progress(format string, args ...any) {
	if !a.quiet && !a.json {
		fmt.Fprintln(a.err, lines(fmt.Sprintf(format, args...), ""))
	}
}

func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}

// span is a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// complete offers the names of sandboxes for the argument at position at; -1
// means every one.
func (a *app) complete(at int) cobra.CompletionFunc {
	return a.offer(at, func(ctx context.Context) ([]string, error) {
		all, err := a.sandboxes(ctx, client.Filter{})
		var names []string
		for _, i := range all {
			names = append(names, label(i.Status))
		}
		return names, err
	})
}

// offer completes the argument at position at (-1: every one) with names.
func (a *app) offer(at int, list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if at >= 0 && len(args) != at || a.configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := list(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) })
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// needArgs checks the number of operands and says what is missing.
func needArgs(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high >= 0 && len(args) > high {
			return fmt.Errorf("%w: %s takes %s, not %d arguments\nsee '%s --help'", atoll.ErrInvalid, cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// finish joins the error of a transfer with that of its end.
func finish(err error, c io.Closer) error { return errors.Join(err, c.Close()) }

// some is a list that JSON writes as one, be it empty.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// ago is how long a time is past; "-" for never.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(t) + " ago"
}
