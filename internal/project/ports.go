package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Each working tree of a sandbox has a block of ports for what its servers
// listen on; $ATOLL_PORT is the first of it.
const (
	FirstPort = 3000 // of the main working tree
	PortBlock = 10   // how many each has
)

const lastPort = FirstPort + PortBlock*mostTrees // the first of the last block

// Port returns the first of the ports of a branch's working tree, which is given
// one if it has none. The main working tree, and an empty branch, have FirstPort.
// What is inside may lie: then it is only its own port that is wrong.
func Port(ctx context.Context, sb atoll.Sandbox, branch string) (int, error) {
	port, err := guest{sb: sb, dir: Workspace}.port(ctx, branch)
	if err != nil {
		return 0, &atoll.Error{Op: "port", ID: sb.ID(), Err: err}
	}
	return port, nil
}

func (g guest) port(ctx context.Context, branch string) (int, error) {
	if main, err := g.isMain(ctx, branch); err != nil || main {
		return FirstPort, err
	}
	text, err := g.own(ctx, branch, "port", func(taken []string) string {
		for n := FirstPort + PortBlock; n <= lastPort; n += PortBlock {
			if s := strconv.Itoa(n); !slices.Contains(taken, s) {
				return s
			}
		}
		return ""
	}, isPort)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > FirstPort && n <= lastPort && n%PortBlock == 0 && strconv.Itoa(n) == s
}

// TerminalName returns the name of the terminal of a branch's working tree in a
// sandbox: the sandbox's own for the main one and an empty branch, else
// SANDBOX-BRANCH in the characters that names have, with a number if another
// branch has that.
func TerminalName(ctx context.Context, sb atoll.Sandbox, sandbox, branch string) (string, error) {
	name, err := guest{sb: sb, dir: Workspace}.terminal(ctx, sandbox, branch)
	if err != nil {
		return "", &atoll.Error{Op: "terminal", ID: sb.ID(), Err: err}
	}
	return name, nil
}

func (g guest) terminal(ctx context.Context, sandbox, branch string) (string, error) {
	if main, err := g.isMain(ctx, branch); err != nil || main {
		return sandbox, err
	}
	prefix := strings.TrimRight(sandbox[:min(len(sandbox), 50)], "-_.") + "-"
	stem := prefix + slug(branch)
	return g.own(ctx, branch, "terminal", func(taken []string) string {
		name := strings.TrimRight(stem[:min(len(stem), 63)], "-_.")
		for n := 2; slices.Contains(taken, name); n++ {
			end := "-" + strconv.Itoa(n)
			name = strings.TrimRight(stem[:min(len(stem), 63-len(end))], "-_.") + end
		}
		return name
	}, func(s string) bool { return strings.HasPrefix(s, prefix) && atoll.CheckName(s) == nil })
}

// slug is a branch's name in the characters that names have.
func slug(branch string) string {
	s := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(branch))
	if s = strings.Trim(s, "-_."); s == "" {
		return digest(branch)
	}
	return s
}

// isMain reports whether a branch is that of the main working tree.
func (g guest) isMain(ctx context.Context, branch string) (bool, error) {
	if branch == "" {
		return true, nil
	}
	if err := CheckBranch(branch); err != nil {
		return false, err
	}
	trees, err := g.trees(ctx)
	return err == nil && trees[0].Branch == branch, err
}

// mostTries is how often two that choose at once begin anew.
const mostTries = 20

// own returns what is kept for a branch in the git configuration inside, which
// choose chooses if there is nothing valid: something that no other branch has.
func (g guest) own(ctx context.Context, branch, key string, choose func(taken []string) string, valid func(string) bool) (string, error) {
	var failed error
	for range mostTries {
		kept, err := g.kept(ctx, key)
		if err != nil {
			return "", err
		}
		var taken []string
		mine, clash, had := "", false, false
		for _, k := range kept {
			had = had || k.branch == branch
			switch {
			case !valid(k.value):
			case k.branch == branch:
				mine, clash = k.value, slices.Contains(taken, k.value) // who stands first keeps it
			default:
				taken = append(taken, k.value)
			}
		}
		if mine != "" && !clash {
			return mine, nil
		}
		value := choose(taken)
		if value == "" {
			return "", fmt.Errorf("%w: no %s is left for the working tree of branch %s", atoll.ErrQuota, key, branch)
		}
		// At the end of the file: of two that chose at once, who came first stands first.
		section := "atoll-" + key + "." + branch
		if had {
			err = g.run(ctx, nil, nil, "config", "--local", "--remove-section", section)
		}
		if err == nil {
			err = g.run(ctx, nil, nil, "config", "--local", section+".is", value)
		}
		if err != nil && !isGuestError(err) { // else somebody else writes it now
			return "", err
		}
		failed = err
	}
	return "", errors.Join(fmt.Errorf("%w: the git configuration inside does not keep a %s for branch %s", ErrMoved, key, branch), failed)
}

// keptValue is what is kept for a branch.
type keptValue struct{ branch, value string }

// kept lists what is kept of a kind, in the order of the configuration.
func (g guest) kept(ctx context.Context, key string) ([]keptValue, error) {
	out, code, err := g.status(ctx, "config", "--local", "-z", "--get-regexp", `^atoll-`+key+`\..*\.is$`)
	if err != nil || code != 0 {
		return nil, err
	}
	var list []keptValue
	for _, e := range split(out, "\x00") {
		name, value, _ := strings.Cut(e, "\n")
		branch := strings.TrimSuffix(strings.TrimPrefix(name, "atoll-"+key+"."), ".is")
		if list = append(list, keptValue{branch, value}); len(list) > mostRefs {
			return nil, fmt.Errorf("%w: the git configuration inside has more than %d of atoll-%s", ErrTooLarge, mostRefs, key)
		}
	}
	return list, nil
}

// forget drops what is kept for a branch.
func (g guest) forget(ctx context.Context, branch string, keys ...string) error {
	for _, key := range keys {
		err := g.run(ctx, nil, nil, "config", "--local", "--remove-section", "atoll-"+key+"."+branch)
		if err != nil && !isGuestError(err) { // nothing was kept, or somebody else writes it
			return err
		}
	}
	return nil
}
