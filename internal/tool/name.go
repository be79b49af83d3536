package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxName is how long a name may be with what agents put before it, as in
// "mcp__atoll__read_file": what the narrowest of the models' dialects takes.
const maxName = 64

// names returns what agents call each of the tools: its own name in letters
// that all of them take, with the server's before it where two would be the
// same. It depends on the set of tools, not on their order.
func names(server string, tools []Tool) []string {
	room := maxName - len("mcp__"+server+"__")
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = plainName(t.Name)
	}
	for _, next := range []func(Tool) string{
		func(t Tool) string { return plainName(t.Server + "_" + t.Name) },
		func(t Tool) string { return plainName(t.Server+"_"+t.Name) + "_" + digest(t) },
	} {
		for i, twice := range repeated(list) {
			if twice {
				list[i] = next(tools[i])
			}
		}
	}
	for i, n := range list {
		if len(n) > room {
			d := digest(tools[i])
			list[i] = n[:room-len(d)-1] + "_" + d
		}
	}
	return list
}

// repeated reports which names are there more than once. Models don't keep
// upper and lower case apart.
func repeated(list []string) []bool {
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

// plainName replaces what names may not have.
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

func digest(t Tool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s:%s", len(t.Server), t.Server, t.Name))
	return hex.EncodeToString(sum[:4])
}
