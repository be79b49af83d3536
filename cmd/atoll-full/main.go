// Command atoll-full is all of atoll. Command atoll, which is small and starts fast, contains it and
// hands over to it.
package main

import (
	"os"

	"github.com/atoll-sandbox/atoll/cmd/internal/program"
)

func main() { os.Exit(program.Run()) }
