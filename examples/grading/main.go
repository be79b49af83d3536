// Command grading grades programs of students: each in a sandbox of its own, with a time limit.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

var submissions = map[string]string{
	"ann": "sort -n | tail -n 1",
	"bob": "head -n 1",
	"eve": "while :; do :; done",
}

func main() {
	ctx := context.Background()
	for _, name := range slices.Sorted(maps.Keys(submissions)) {
		fmt.Println(name, grade(ctx, submissions[name]))
	}
}

// grade runs a program that should print the largest number of its input.
func grade(ctx context.Context, program string) string {
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: program, Stdin: strings.NewReader("3\n12\n7\n"), Timeout: time.Second})
	switch {
	case errors.Is(err, atoll.ErrTimeout):
		return "too slow"
	case err != nil:
		return err.Error()
	case string(exit.Stdout) == "12\n":
		return "passed"
	}
	return "failed"
}
