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

// refPrefix returns the prefix of the refs of a sandbox.
func refPrefix(name string) string { return "refs/sandbox/" + name + "/" }

// Kinds of refs besides branches. A branch whose name begins like one of them becomes kindOdd.
const (
	kindBranch   = ""
	kindWork     = "wip/"    // uncommitted work
	kindHead     = "head/"   // working trees with a detached HEAD
	kindStash    = "stash/"  // in a rescue
	kindTag      = "tag/"    // in a rescue
	kindNested   = "nested/" // nested repositories
	kindRescue   = "rescue/"
	kindImported = "carried/" // imported work
	kindOdd      = "odd/"     // names that can't be refs of the host
)

var refKinds = []string{kindWork, kindHead, kindStash, kindTag, kindNested, kindRescue, kindImported, kindOdd}

// checkSandboxName reports why the name of a sandbox can't be part of a ref.
func checkSandboxName(name string) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	if err := checkRefName(name); err != nil {
		return fmt.Errorf("%w: name %q of a sandbox: %w", atoll.ErrInvalid, name, err)
	}
	return nil
}

// CheckBranch reports why a name can't be a branch here or on any file system.
func CheckBranch(name string) error {
	if err := checkRefName(name); err != nil {
		return fmt.Errorf("%w: branch %q: %w", atoll.ErrInvalid, printable(name), err)
	}
	return nil
}

// checkRefName applies git's own rule (git-check-ref-format) and more: names must be printable and valid
// file names on every file system.
func checkRefName(name string) error {
	switch {
	case name == "" || len(name) > 180:
		return fmt.Errorf("it has %d bytes, and must have 1 to 180", len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("it has unprintable characters")
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

// refNames assigns refs on the host to the names in a sandbox, so that no two collide, not even in
// case-insensitive file systems.
type refNames struct {
	base  string
	taken map[string]bool // in lower case
	above map[string]bool // their parent directories
}

func newRefNames(base string) *refNames {
	return &refNames{base: base, taken: make(map[string]bool), above: make(map[string]bool)}
}

// assignRef returns the ref for a name. odd reports that it could not keep its name.
func (n *refNames) assignRef(kind, name string) (ref string, odd bool) {
	ref = n.base + kind + name
	if checkRefName(name) != nil || len(kind+name) > 180 || kind == kindBranch && slices.ContainsFunc(refKinds, func(k string) bool { return strings.HasPrefix(strings.ToLower(name)+"/", k) }) || n.isBlocked(ref) {
		ref, odd = n.base+kindOdd+hashName(kind+name), true
		for i := 2; n.isBlocked(ref); i++ { // several working trees can be on one branch
			ref = n.base + kindOdd + hashName(fmt.Sprintf("%s%s\x00%d", kind, name, i))
		}
	}
	n.markUsed(ref)
	return ref, odd
}

func (n *refNames) markUsed(ref string) {
	ref = strings.ToLower(ref)
	n.taken[ref] = true
	for i, c := range ref {
		if c == '/' {
			n.above[ref[:i]] = true
		}
	}
}

func (n *refNames) isBlocked(ref string) bool {
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

// hashName returns a short hash of a name that can't be a ref.
func hashName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:10])
}
