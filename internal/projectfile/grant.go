package projectfile

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Grants lists, for people, what the repository asks for that somebody must have
// agreed to: all that makes the wall wider, brings something of the host inside, or
// does something on the host by itself. What runs inside is not in it. The same
// wishes are the same list, whatever else the files say.
func (f *File) Grants() []string {
	var list []string
	add := func(words ...string) { list = append(list, strings.Join(words, " ")) }
	switch f.Network.Mode {
	case "", atoll.NetworkNone:
	case atoll.NetworkNAT:
		add("network: it may reach all of the internet (nat)")
	case atoll.NetworkBridge:
		add("network: it is on this machine's network (bridge)")
	case atoll.NetworkOpen:
		add("network: it may reach everything, this machine's services too (open)")
	default:
		add("network:", string(f.Network.Mode))
	}
	for _, h := range f.Network.Allow {
		add("network: it may reach", quoted(h))
	}
	if f.Driver != "" {
		add("driver: the wall is that of", f.Driver)
	}
	for _, p := range f.EnvFiles {
		add("env_files: files that git ignores go in:", quoted(p))
	}
	for _, v := range f.Env {
		if v.Host {
			add("env: your variable", quoted(v.From), "goes in")
		}
	}
	if f.Agent != "" {
		add(f.AgentGrant())
	}
	if f.Sync.Mode == atoll.SyncAutoCommit || f.Sync.Mode == atoll.SyncAutoIdle {
		add("sync: work comes into your working tree by itself (" + string(f.Sync.Mode) + ")")
	}
	return list
}

// AgentGrant is the one of Grants that is for the agent.
func (f *File) AgentGrant() string {
	return "agent: " + f.Agent + " is started, may reach its maker's API, and use your key for it"
}

// quoted shows a text that may hold anything.
func quoted(text string) string {
	if q := strconv.QuoteToASCII(text); q != `"`+text+`"` || strings.Contains(text, " ") {
		return q
	}
	return text
}
