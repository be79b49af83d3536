// Command policy decides on each command before it runs: a veto, and a record.
package main

import (
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
	fmt.Printf("status %d: %s", exit.Code, exit.Stderr)
	if exit, err = sb.Exec(ctx, atoll.Cmd{Shell: "cat /tmp/file"}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the file is %s", exit.Stdout)
}
