package kernel

import (
	"fmt"
	"strings"
)

// mountEscape escapes names as in /proc/mounts.
var mountEscape = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)

// mountTable returns the content of /proc/mounts. The sources of mounts on the host are not
// visible.
func (k *Kernel) mountTable() []byte {
	b := []byte("atoll / vfs rw 0 0\n")
	for _, m := range k.fs.Mounts() {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		b = fmt.Appendf(b, "host %s host %s,nosuid,nodev 0 0\n", mountEscape.Replace(m.Target), access)
	}
	return b
}
