package namespace

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// makerGroupsNote describes the groups of its creator that a sandbox keeps; empty: none.
func makerGroupsNote() string {
	if isRoot() {
		return "" // it drops them
	}
	list, err := os.Getgroups()
	if err != nil {
		return "the groups of this user are not known: " + err.Error()
	}
	var more []int
	for _, g := range list {
		if g != os.Getegid() {
			more = append(more, g)
		}
	}
	if len(more) == 0 {
		return ""
	}
	return fmt.Sprintf("programs keep the groups %v of the user that created their sandbox, and so their rights on mounted files: only root can leave groups", more)
}

func checkMakersGroups() atoll.Check {
	c := atoll.Check{Name: "groups of the maker", OK: true, Detail: "sandboxes have none of them but its own"}
	if note := makerGroupsNote(); note != "" {
		c.OK, c.Detail, c.Fix = false, note, "run atoll as root, or as a user that is in no other group"
	}
	return c
}
