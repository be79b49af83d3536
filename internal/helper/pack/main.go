// Command pack puts helpers into a program: pack PROGRAM HELPER…
package main

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: pack PROGRAM HELPER…")
		os.Exit(2)
	}
	if err := helper.Pack(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}
