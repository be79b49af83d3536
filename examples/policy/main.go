// Command policy decides on each command before it runs: a veto, and a record.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell"
)

func main() {
	ctx := context.Background()
	d := virtual.New()
	d.Policy = func(_ context.Context, c shell.Call) error {
		if c.Name == "rm" {
			return errors.New("ask a person first")
		}
		return nil
	}
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo kept >/tmp/file; rm /tmp/file"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("status %d; the reason is told: %t\n", exit.Code, bytes.Contains(exit.Stderr, []byte("ask a person first")))
	exit, err = sb.Exec(ctx, atoll.Cmd{Shell: "cat /tmp/file"})
	fmt.Printf("%s%v\n", exit.Stdout, err)
}
