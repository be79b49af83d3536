package about

import (
	"context"

	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/preview/mdns"
)

// checkLocalhost checks which programs can resolve names below localhost here.
func checkLocalhost(ctx context.Context) finding {
	if previewserver.ResolvesLocalhost(ctx) {
		return finding{Check: "names: localhost", OK: true, Detail: "all programs find NAME.localhost"}
	}
	return finding{
		Check: "names: localhost", Optional: true,
		Detail: "browsers and curl find NAME.localhost by themselves; other programs don't: this machine's resolver knows no names below localhost",
		Fix:    "apt-get install libnss-myhostname, or 'myhostname' in the line 'hosts:' of /etc/nsswitch.conf",
	}
}

// checkLocal checks which names of a local network can be resolved here.
func checkLocal() finding {
	f := finding{Check: "names: local", Optional: true}
	reach, err := previewserver.MDNSReach()
	switch {
	case err != nil:
		f.Detail, f.Fix = err.Error(), "see the message"
	case reach == mdns.AnyLabels:
		f.OK, f.Detail = true, "this machine finds NAME.local and NAME.sandbox.local"
	case reach == mdns.Resolved:
		f.OK, f.Detail = true, "systemd-resolved is asked for NAME.local and NAME.sandbox.local: 'resolvectl mdns' says whether it asks the network"
	case reach == mdns.TwoLabels:
		f.Detail = "this machine finds NAME.local, but not NAME.sandbox.local: nss-mdns asks for names of two labels only, here and on other machines of its kind"
		f.Fix = "'atoll serve --mdns' with '--domain local'; or mdns4 for mdns4_minimal in /etc/nsswitch.conf, and a line '.local' in /etc/mdns.allow"
	default:
		f.Detail, f.Fix = "this machine finds no names of 'atoll serve --mdns': nothing in /etc/nsswitch.conf asks the local network", "apt-get install libnss-mdns"
	}
	return f
}
