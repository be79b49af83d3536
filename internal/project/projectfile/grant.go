package projectfile

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Grants lists what the repository asks for and the user must agree to: everything that weakens the
// isolation, brings data of the host inside, or changes the host automatically. Commands that run inside
// are not listed. Equal requests give an equal list, whatever else the files contain.
func (f *File) Grants() []string {
	var list []string
	add := func(words ...string) { list = append(list, strings.Join(words, " ")) }
	switch f.Network.Mode {
	case "", atoll.NetworkNone:
	case atoll.NetworkNAT:
		add("network: access to the whole internet (nat)")
	case atoll.NetworkBridge:
		add("network: an address on this machine's network (bridge)")
	case atoll.NetworkOpen:
		add("network: access to everything, including services on this machine (open)")
	default:
		add("network:", string(f.Network.Mode))
	}
	for _, h := range f.Network.Allow {
		add("network: access to", quoteText(h))
	}
	if f.Driver != "" {
		add("driver: isolation by", f.Driver)
	}
	for _, p := range f.EnvFiles {
		add("env_files: import of files that git ignores:", quoteText(p))
	}
	for _, v := range f.Env {
		if v.Host {
			add("env: your variable", quoteText(v.From), "is set inside")
		}
	}
	if f.Agent != "" {
		add(f.AgentGrant())
	}
	if f.Sync.Mode == atoll.SyncAutoCommit || f.Sync.Mode == atoll.SyncAutoIdle {
		add("sync: your working tree is updated automatically (" + string(f.Sync.Mode) + ")")
	}
	return list
}

// AgentGrant returns the entry of Grants for the agent.
func (f *File) AgentGrant() string {
	return "agent: " + f.Agent + " is started with access to its vendor's API and the use of your key"
}

// quoteText quotes a text that may contain anything.
func quoteText(text string) string {
	if q := strconv.QuoteToASCII(text); q != `"`+text+`"` || strings.Contains(text, " ") {
		return q
	}
	return text
}
