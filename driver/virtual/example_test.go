package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell"
)

func Example() {
	ctx := context.Background()
	made, err := virtual.New().Create(ctx, atoll.Spec{Limits: atoll.Resources{Disk: 1 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	sb := made.(*virtual.Sandbox)
	defer sb.Destroy(ctx)

	r, err := sb.Execute(ctx, `printf '%s\n' pear apple fig | sort > fruit; cat fruit | tr '\n' ' '`)
	fmt.Println(r.Stdout, r.ExitCode, err)
	r, err = sb.Execute(ctx, "head -c 2M /dev/zero > big")
	fmt.Print(r.Stderr, r.ExitCode, " ", err)
	// Output:
	// apple fig pear  0 <nil>
	// head: write error: No space left on device
	// 1 <nil>
}

// greet is a command of the embedder's own.
type greet struct{}

func (greet) Name() string        { return "greet" }
func (greet) Aliases() []string   { return []string{"hello"} }
func (greet) Description() string { return "greet somebody" }
func (greet) Usage() string       { return "greet NAME" }

func (greet) Execute(_ context.Context, args []string, c shell.Context) shell.ExtensionResult {
	if len(args) != 1 {
		return shell.ExtensionResult{Stderr: "greet: who?\n", ExitCode: 2}
	}
	return shell.ExtensionResult{Stdout: fmt.Sprintf("hello %s, in %s\n", args[0], c.CurrentDirectory)}
}

func ExampleDriver_extensions() {
	ctx := context.Background()
	d := &virtual.Driver{Extensions: []shell.Extension{greet{}}}
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	r, err := atoll.Execute(ctx, sb, "cd /tmp; greet you | tr a-z A-Z; hello; echo $?")
	fmt.Print(r.Stdout, r.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// HELLO YOU, IN /TMP
	// 2
	// greet: who?
}

func ExampleDriver_policy() {
	ctx := context.Background()
	d := &virtual.Driver{Policy: func(_ context.Context, c shell.Call) error {
		if c.Name == "rm" && slices.Contains(c.Args, "-rf") {
			return errors.New("ask a person first")
		}
		return nil
	}}
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	for _, command := range []string{"rm -rf /tmp", "x=-rf; sh -c \"rm $x /tmp\"", "echo /tmp | xargs rm -rf", "find /tmp -maxdepth 0 -exec rm -rf {} \\;"} {
		r, err := atoll.Execute(ctx, sb, command)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.ExitCode != 0 || strings.Contains(r.Stderr, "denied"))
	}
	r, err := atoll.Execute(ctx, sb, "ls -d /tmp")
	fmt.Print(r.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// true
	// true
	// true
	// true
	// /tmp
}
