// Command evaluation prepares one sandbox and forks it a thousand times, once for each attempt of a model.
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
	base, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer base.Destroy(ctx)
	if _, err := atoll.Execute(ctx, base, "mkdir /task && seq 100 >/task/numbers"); err != nil {
		log.Fatal(err)
	}
	if _, err := atoll.Snapshot(ctx, base, "prepared"); err != nil {
		log.Fatal(err)
	}
	passed := 0
	for attempt := range 1000 {
		if try(ctx, base, attempt) {
			passed++
		}
	}
	fmt.Println(passed, "of 1000 attempts passed")
}

// try runs one attempt and checks it. Every third attempt is right.
func try(ctx context.Context, base atoll.Sandbox, attempt int) bool {
	sb, err := atoll.Fork(ctx, base, "prepared", atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	answer := "rm /task/numbers"
	if attempt%3 == 0 {
		answer = "paste -sd+ /task/numbers | bc >/task/sum"
	}
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: answer + "; test \"$(cat /task/sum)\" = 5050"})
	if err != nil {
		log.Fatal(err)
	}
	return exit.Code == 0
}
