// Command undo takes a snapshot before each step of an agent, and goes back when a check fails.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func main() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	for i, step := range []string{"echo one >/tmp/notes", "rm -rf /tmp/*", "echo two >>/tmp/notes"} {
		name := fmt.Sprint("step-", i)
		if _, err := atoll.Snapshot(ctx, sb, name); err != nil {
			log.Fatal(err)
		}
		r, err := atoll.Execute(ctx, sb, step+"; test -s /tmp/notes")
		if err != nil {
			log.Fatal(err)
		}
		if r.ExitCode != 0 {
			fmt.Println("undone:", step)
			if err := atoll.Restore(ctx, sb, name); err != nil {
				log.Fatal(err)
			}
		}
	}
	b, err := atoll.ReadFile(ctx, sb, "/tmp/notes")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", b)
}
