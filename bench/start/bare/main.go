// Command bare prints a line: the least that a Go program does.
package main

import "os"

func main() { _, _ = os.Stdout.WriteString("bare\n") }
