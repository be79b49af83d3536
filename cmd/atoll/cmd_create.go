package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) createCommand() *cobra.Command {
	var f specFlags
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Make a sandbox that stays until it is removed",
		Long: `Make a sandbox that stays until it is removed. Its name, one that is made up
if you give none, is printed on stdout.`,
		Example: "  atoll create --name box\n  atoll create --memory 128m --disk 50m --env TOKEN",
		Args:    needArgs(0, 0, "no arguments (the name goes into --name)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.driver()
			if err != nil {
				return err
			}
			spec, err := f.spec()
			if err != nil {
				return err
			}
			sb, err := a.make(cmd.Context(), spec, func(spec atoll.Spec) (atoll.Sandbox, error) { return d.Create(cmd.Context(), spec) })
			if err != nil {
				return err
			}
			return a.show(cmd.Context(), sb)
		},
	}
	f.add(cmd)
	return cmd
}

// make creates a sandbox under a name that no other has.
func (a *app) make(ctx context.Context, spec atoll.Spec, create func(atoll.Spec) (atoll.Sandbox, error)) (sb atoll.Sandbox, err error) {
	unlock, err := a.lockNames(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := a.every(ctx)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool)
	for _, p := range all {
		taken[p.status.Name] = true
	}
	if spec.Name == "" {
		spec.Name = madeUp(taken)
	} else if taken[spec.Name] {
		return nil, fmt.Errorf("sandbox %q: %w: choose another --name, or remove it with 'atoll rm %s'", spec.Name, atoll.ErrExists, spec.Name)
	}
	return create(spec)
}

// show prints the name of a new sandbox, or all about it as JSON.
func (a *app) show(ctx context.Context, sb atoll.Sandbox) error {
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(st)
	}
	_, err = fmt.Fprintln(a.out, label(st))
	return err
}

var (
	moods   = []string{"calm", "bright", "quiet", "swift", "kind", "bold", "clear", "deep", "early", "fair", "gentle", "keen", "light", "merry", "neat", "proud", "round", "shy", "sunny", "warm", "wise", "young"}
	animals = []string{"crab", "coral", "dolphin", "eel", "gull", "heron", "koi", "lagoon", "manta", "marlin", "nautilus", "otter", "palm", "pearl", "ray", "reef", "seal", "shell", "squid", "tern", "tuna", "turtle"}
)

// madeUp returns a name that is not taken.
func madeUp(taken map[string]bool) string {
	for {
		name := moods[rand.IntN(len(moods))] + "-" + animals[rand.IntN(len(animals))]
		for try := 0; taken[name] && try < 1000; try++ {
			name = fmt.Sprintf("%s-%s-%d", moods[rand.IntN(len(moods))], animals[rand.IntN(len(animals))], rand.IntN(10_000))
		}
		if !taken[name] {
			return name
		}
	}
}
