package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) createCommand() *cobra.Command {
	var f specFlags
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Make a sandbox that stays",
		Long: `Make a sandbox that stays until it is removed, or until its --policy, --idle,
--ttl or --lifetime ends it. Its name, one that is made up if you give none, is
printed on stdout. What the flags leave open is taken from the configuration.`,
		Example: `  atoll create --name box
  atoll create --memory 128m --disk 50m --secret TOKEN
  atoll create --name job --workspace data:/data:ro --ttl 1h
  atoll create --prepare steps.yaml        a list of {exec: [...]}, {shell: ...},
                                           {file: {path, content, mode}} or {copy: ...}`,
		Args: needArgs(0, 0, "no arguments (the name goes into --name)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(a.config)
			if err != nil {
				return err
			}
			sb, err := a.create(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.show(context.WithoutCancel(cmd.Context()), sb) // it is there: a late Ctrl-C must not hide its name
		},
	}
	f.add(cmd)
	f.addFleet(cmd)
	f.addLife(cmd)
	return cmd
}

// create makes a sandbox in the fleet, under a name that is made up if none is
// given.
func (a *app) create(ctx context.Context, cfg atoll.Config) (sb *client.Sandbox, err error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	err = named(cfg.Name, func(name string) error {
		cfg.Name = name
		defer a.watchCreation(ctx, c, name)()
		sb, err = c.CreateConfig(ctx, cfg)
		return err
	})
	return sb, err
}

// named makes something under a name, or under made up ones until one is free.
func named(name string, create func(name string) error) error {
	if name != "" {
		err := create(name)
		if errors.Is(err, atoll.ErrExists) {
			err = fmt.Errorf("%w: choose another --name, or remove it with 'atoll rm %s'", err, name)
		}
		return err
	}
	for try := 0; ; try++ {
		err := create(madeUp(try))
		if !errors.Is(err, atoll.ErrExists) || try == 20 {
			return err
		}
	}
}

// show prints the name of a new sandbox, or all about it as JSON.
func (a *app) show(ctx context.Context, sb *client.Sandbox) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(info)
	}
	_, err = fmt.Fprintln(a.out, label(info.Status))
	return err
}

var (
	moods   = []string{"calm", "bright", "quiet", "swift", "kind", "bold", "clear", "deep", "early", "fair", "gentle", "keen", "light", "merry", "neat", "proud", "round", "shy", "sunny", "warm", "wise", "young"}
	animals = []string{"crab", "coral", "dolphin", "eel", "gull", "heron", "koi", "lagoon", "manta", "marlin", "nautilus", "otter", "palm", "pearl", "ray", "reef", "seal", "shell", "squid", "tern", "tuna", "turtle"}
)

// madeUp returns a name, with a number from the third try on.
func madeUp(try int) string {
	name := moods[rand.IntN(len(moods))] + "-" + animals[rand.IntN(len(animals))]
	if try < 2 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, rand.IntN(10_000))
}
