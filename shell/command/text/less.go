package text

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

const lessUsage = `Usage: less [OPTION]... [FILE]...
Print files, as less does if its output is not a terminal. Nothing waits for a key.

  -N, --LINE-NUMBERS  number the lines
  Other options of less, more and their +COMMANDs are accepted.
`

// runLess prints files by cat, which less is without a terminal.
func runLess(p *kernel.Proc) int {
	args := []string{"cat"}
	files := false
	for n := 1; n < len(p.Args); n++ {
		switch a := p.Args[n]; {
		case files || a == "-" || !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+"):
			args = append(args, a)
		case a == "--":
			files = true
			args = append(args, "--")
		case a == "--LINE-NUMBERS" || a[1] != '-' && a[0] == '-' && strings.Contains(a, "N"):
			args = append(args, "-n")
		}
	}
	p.Args = args
	return runCat(p)
}
