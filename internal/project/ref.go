package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// base is where the refs of a sandbox are.
func base(name string) string { return "refs/sandbox/" + name + "/" }

// Kinds of refs beside branches. A branch whose name begins like one of them is
// odd.
const (
	kindBranch  = ""
	kindWork    = "wip/"    // uncommitted work
	kindHead    = "head/"   // working trees that are on no branch
	kindStash   = "stash/"  // in a rescue
	kindTag     = "tag/"    // likewise
	kindNested  = "nested/" // repositories inside of the repository
	kindRescue  = "rescue/"
	kindCarried = "carried/" // what went in
	kindOdd     = "odd/"     // what can't have its name
)

var kinds = []string{kindWork, kindHead, kindStash, kindTag, kindNested, kindRescue, kindCarried, kindOdd}

// checkSandboxName reports why a sandbox's name can't be part of a ref.
func checkSandboxName(name string) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	if err := refFault(name); err != nil {
		return fmt.Errorf("%w: name %q of a sandbox: %w", atoll.ErrInvalid, name, err)
	}
	return nil
}

// CheckBranch reports why a name can't be a branch's, here or in any file system.
func CheckBranch(name string) error {
	if err := refFault(name); err != nil {
		return fmt.Errorf("%w: branch %q: %w", atoll.ErrInvalid, shown(name), err)
	}
	return nil
}

// refFault is git's own rule (git-check-ref-format), and more: what is shown as
// it is, and what every file system can hold as a file.
func refFault(name string) error {
	switch {
	case name == "" || len(name) > 180:
		return fmt.Errorf("it has %d bytes, and must have 1 to 180", len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("it has characters that can't be seen")
	case strings.ContainsAny(name, " ~^:?*[\\<>|\""):
		return fmt.Errorf("it has a space or one of ~^:?*[\\<>|\"")
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || name == "@":
		return fmt.Errorf("it has '..' or '@{', or is '@'")
	case name[0] == '-' || strings.HasSuffix(name, "."):
		return fmt.Errorf("it begins with '-' or ends with '.'")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part[0] == '.' || strings.HasSuffix(strings.ToLower(part), ".lock"):
			return fmt.Errorf("a part of it is empty, begins with '.' or ends with '.lock'")
		case part == "HEAD":
			return fmt.Errorf("a part of it is HEAD")
		}
	}
	return nil
}

// names gives refs of the host to what a sandbox calls its own, so that none
// stands in the way of another: not by letters' case either.
type names struct {
	base  string
	taken map[string]bool // by lower case
	above map[string]bool // directories of those
}

func newNames(base string) *names {
	return &names{base: base, taken: make(map[string]bool), above: make(map[string]bool)}
}

// ref returns the ref for a name; odd if it can't have that name.
func (n *names) ref(kind, name string) (ref string, odd bool) {
	ref = n.base + kind + name
	if refFault(name) != nil || len(kind+name) > 180 || kind == kindBranch && slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(strings.ToLower(name)+"/", k) }) || n.blocked(ref) {
		ref, odd = n.base+kindOdd+digest(kind+name), true
	}
	n.take(ref)
	return ref, odd
}

func (n *names) take(ref string) {
	ref = strings.ToLower(ref)
	n.taken[ref] = true
	for i, c := range ref {
		if c == '/' {
			n.above[ref[:i]] = true
		}
	}
}

func (n *names) blocked(ref string) bool {
	ref = strings.ToLower(ref)
	if n.taken[ref] || n.above[ref] {
		return true
	}
	for i, c := range ref {
		if c == '/' && n.taken[ref[:i]] {
			return true
		}
	}
	return false
}

// digest stands for a name that no ref can have.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:10])
}
