package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

// CreateSandbox makes a sandbox in the fleet, under a name that is made up if none is
// given.
func (a *App) CreateSandbox(ctx context.Context, cfg atoll.Config) (sb *client.Sandbox, err error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	err = TryNames(cfg.Name, func(name string) error {
		cfg.Name = name
		defer a.ShowCreation(ctx, c, name)()
		sb, err = c.CreateSandbox(ctx, cfg)
		return err
	})
	return sb, err
}

// TryNames makes something under a name, or under made up ones until one is free.
func TryNames(name string, create func(name string) error) error {
	if name != "" {
		err := create(name)
		if errors.Is(err, atoll.ErrExists) {
			err = fmt.Errorf("%w: choose another --name, or remove it with 'atoll rm %s'", err, name)
		}
		return err
	}
	for try := 0; ; try++ {
		err := create(makeName(try))
		if !errors.Is(err, atoll.ErrExists) || try == 20 {
			return err
		}
	}
}

var (
	moods   = []string{"calm", "bright", "quiet", "swift", "kind", "bold", "clear", "deep", "early", "fair", "gentle", "keen", "light", "merry", "neat", "proud", "round", "shy", "sunny", "warm", "wise", "young"}
	animals = []string{"crab", "coral", "dolphin", "eel", "gull", "heron", "koi", "lagoon", "manta", "marlin", "nautilus", "otter", "palm", "pearl", "ray", "reef", "seal", "shell", "squid", "tern", "tuna", "turtle"}
)

// makeName returns a name, with a number from the third try on.
func makeName(try int) string {
	name := moods[rand.IntN(len(moods))] + "-" + animals[rand.IntN(len(animals))]
	if try < 2 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, rand.IntN(10_000))
}
