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

// Each working tree of a sandbox has a block of ports for its servers. $ATOLL_PORT is the first of them.
const (
	FirstPort = 3000 // first port of the main working tree
	PortBlock = 10   // number of ports of each working tree
)

const lastPort = FirstPort + PortBlock*maxTrees // first port of the last block

// AssignPort returns the first port of a branch's working tree, and assigns it if there is none. The main
// working tree and an empty branch have FirstPort. The value is stored inside and therefore untrusted, but
// programs inside can only spoil their own port.
func AssignPort(ctx context.Context, sb atoll.Sandbox, branch string) (int, error) {
	port, err := guest{sb: sb, dir: Workspace}.findPort(ctx, branch)
	if err != nil {
		return 0, &atoll.Error{Op: "port", ID: sb.ID(), Err: err}
	}
	return port, nil
}

func (g guest) findPort(ctx context.Context, branch string) (int, error) {
	if main, err := g.isMain(ctx, branch); err != nil || main {
		return FirstPort, err
	}
	text, err := g.branchValue(ctx, branch, "port", func(taken []string) string {
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

// TerminalName returns the name of the terminal of a branch's working tree: the sandbox's name for the main
// working tree and an empty branch, else SANDBOX-BRANCH, reduced to the characters that names may have,
// with a number if another branch has that name.
func TerminalName(ctx context.Context, sb atoll.Sandbox, sandbox, branch string) (string, error) {
	name, err := guest{sb: sb, dir: Workspace}.findTerminalName(ctx, sandbox, branch)
	if err != nil {
		return "", &atoll.Error{Op: "terminal", ID: sb.ID(), Err: err}
	}
	return name, nil
}

func (g guest) findTerminalName(ctx context.Context, sandbox, branch string) (string, error) {
	if main, err := g.isMain(ctx, branch); err != nil || main {
		return sandbox, err
	}
	prefix := strings.TrimRight(sandbox[:min(len(sandbox), 50)], "-_.") + "-"
	stem := prefix + toNameChars(branch)
	return g.branchValue(ctx, branch, "terminal", func(taken []string) string {
		name := strings.TrimRight(stem[:min(len(stem), 63)], "-_.")
		for n := 2; slices.Contains(taken, name); n++ {
			end := "-" + strconv.Itoa(n)
			name = strings.TrimRight(stem[:min(len(stem), 63-len(end))], "-_.") + end
		}
		return name
	}, func(s string) bool { return strings.HasPrefix(s, prefix) && atoll.CheckName(s) == nil })
}

// toNameChars reduces a branch's name to the characters that names may have.
func toNameChars(branch string) string {
	s := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(branch))
	if s = strings.Trim(s, "-_."); s == "" {
		return hashName(branch)
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
	trees, err := g.listTrees(ctx)
	return err == nil && trees[0].Branch == branch, err
}

// maxTries limits the attempts when several processes choose a value at once.
const maxTries = 20

// branchValue returns the value of a branch in the git configuration inside. If there is no valid one, choose
// chooses a value that no other branch has.
func (g guest) branchValue(ctx context.Context, branch, key string, choose func(taken []string) string, valid func(string) bool) (string, error) {
	var failed error
	for range maxTries {
		kept, err := g.readBranchValues(ctx, key)
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
				mine, clash = k.value, slices.Contains(taken, k.value) // the first one keeps it
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
		// It is appended to the file, so the first of several processes wins.
		section := "atoll-" + key + "." + branch
		if had {
			err = g.run(ctx, nil, nil, "config", "--local", "--remove-section", section)
		}
		if err == nil {
			err = g.run(ctx, nil, nil, "config", "--local", section+".is", value)
		}
		if err != nil && !isGuestError(err) { // otherwise another process writes it now
			return "", err
		}
		failed = err
	}
	return "", errors.Join(fmt.Errorf("%w: the git configuration inside does not keep the %s of branch %s", ErrMoved, key, branch), failed)
}

// keptValue is the stored value of a branch.
type keptValue struct{ branch, value string }

// readBranchValues returns the stored values of a key, in the order of the configuration.
func (g guest) readBranchValues(ctx context.Context, key string) ([]keptValue, error) {
	out, code, err := g.runStatus(ctx, "config", "--local", "-z", "--get-regexp", `^atoll-`+key+`\..*\.is$`)
	if err != nil || code != 0 {
		return nil, err
	}
	var list []keptValue
	for _, e := range splitTerminated(out, "\x00") {
		name, value, _ := strings.Cut(e, "\n")
		branch := strings.TrimSuffix(strings.TrimPrefix(name, "atoll-"+key+"."), ".is")
		if list = append(list, keptValue{branch, value}); len(list) > maxRefs {
			return nil, fmt.Errorf("%w: the git configuration inside has more than %d of atoll-%s", ErrTooLarge, maxRefs, key)
		}
	}
	return list, nil
}

// unsetBranchKeys removes the stored values of a branch.
func (g guest) unsetBranchKeys(ctx context.Context, branch string, keys ...string) error {
	for _, key := range keys {
		err := g.run(ctx, nil, nil, "config", "--local", "--remove-section", "atoll-"+key+"."+branch)
		if err != nil && !isGuestError(err) { // there is none, or another process writes it
			return err
		}
	}
	return nil
}
