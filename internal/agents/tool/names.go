package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxName is the longest name with the prefix that agents add, as in
// "mcp__atoll__read_file": the limit of the strictest model API.
const maxName = 64

// uniqueNames returns the agents' names of the tools: the tool's own name in letters
// that every agent accepts, with a server prefix where two are the same. The result
// depends on the set of tools, not on their order.
func uniqueNames(server string, tools []Tool) []string {
	room := maxName - len("mcp__"+server+"__")
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = plainName(t.Name)
	}
	for _, next := range []func(Tool) string{
		func(t Tool) string { return plainName(t.Server + "_" + t.Name) },
		func(t Tool) string { return plainName(t.Server+"_"+t.Name) + "_" + shortHash(t) },
	} {
		for i, twice := range findRepeated(list) {
			if twice {
				list[i] = next(tools[i])
			}
		}
	}
	for i, n := range list {
		if len(n) > room {
			d := shortHash(tools[i])
			list[i] = n[:room-len(d)-1] + "_" + d
		}
	}
	return list
}

// findRepeated reports which names occur more than once. Models do not distinguish
// upper and lower case.
func findRepeated(list []string) []bool {
	count := make(map[string]int)
	for _, n := range list {
		count[strings.ToLower(n)]++
	}
	twice := make([]bool, len(list))
	for i, n := range list {
		twice[i] = count[strings.ToLower(n)] > 1
	}
	return twice
}

// plainName replaces characters that names can't have.
func plainName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "tool"
	}
	return s
}

func shortHash(t Tool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s:%s", len(t.Server), t.Server, t.Name))
	return hex.EncodeToString(sum[:4])
}
