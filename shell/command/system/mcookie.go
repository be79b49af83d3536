package system

import (
	"encoding/hex"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const mcookieUsage = `Usage: mcookie [options]
Generate a random cookie of 32 hexadecimal digits.

  -f, --file FILE      ignored: there is enough randomness
  -m, --max-size NUM   ignored
  -v, --verbose        ignored
      --help           display this help and exit
`

func runMcookie(p *kernel.Proc) int {
	_, _, ok := option.Parser{Options: []option.Option{{Short: 'f', Long: "file", Arg: option.Required}, {Short: 'm', Long: "max-size", Arg: option.Required}, {Short: 'v', Long: "verbose"}}}.Parse(p)
	if !ok {
		return 1
	}
	var b [16]byte
	p.Rand(b[:])
	_, _ = p.Out().WriteString(hex.EncodeToString(b[:]) + "\n") // Flush reports the error
	return 0
}
