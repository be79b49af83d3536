package atoll_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func Example() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)

	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "seq 10 | paste -sd+ | bc"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s status %d\n", bytes.TrimSpace(exit.Stdout), exit.Code)
	// Output: 55 status 0
}

func ExampleDriver() {
	ctx := context.Background()
	var d atoll.Driver = virtual.New()
	features, err := d.Probe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	sb, err := d.Create(ctx, atoll.Spec{Name: "box", Env: []string{"WHO=world"}})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	list, err := d.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Name(), features.Snapshot, list[0].Name, list[0].State)
	// Output: virtual true box running
}

func ExampleSandbox() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)

	var in bytes.Buffer
	tw := tar.NewWriter(&in)
	tw.WriteHeader(&tar.Header{Name: "notes.txt", Mode: 0o644, Size: 6})
	io.WriteString(tw, "hello\n")
	tw.Close()
	if err := sb.Import(ctx, "/work", &in); err != nil {
		log.Fatal(err)
	}
	out, err := sb.Export(ctx, "/work")
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	tr := tar.NewReader(out)
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		fmt.Println(h.Name)
	}
	// Output:
	// work/
	// work/notes.txt
}

func ExampleCmd() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)

	var out strings.Builder
	exit, err := sb.Exec(ctx, atoll.Cmd{
		Args:   []string{"grep", "-c", "$HOME"}, // as given: no shell looks at it
		Stdin:  strings.NewReader("costs $HOME\nfree\n"),
		Stdout: &out,
	})
	fmt.Printf("%q %d %v\n", out.String(), exit.Code, err)

	_, err = sb.Exec(ctx, atoll.Cmd{Shell: "while :; do :; done", Timeout: 50 * time.Millisecond})
	fmt.Println(errors.Is(err, atoll.ErrTimeout))
	// Output:
	// "1\n" 0 <nil>
	// true
}

func ExampleExecute() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)

	for _, command := range []string{"mkdir /src && cd /src", "pwd", "exit 3"} {
		r, err := atoll.Execute(ctx, sb, command)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q %d\n", r.Stdout, r.ExitCode)
	}
	// Output:
	// "" 0
	// "/src\n" 0
	// "" 3
}

func ExampleSnapshot() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)

	run := func(command string) string {
		r, err := atoll.Execute(ctx, sb, command)
		if err != nil {
			log.Fatal(err)
		}
		return r.Stdout
	}
	run("echo precious > /file")
	if _, err := atoll.Snapshot(ctx, sb, "before"); err != nil {
		log.Fatal(err)
	}
	run("rm -rf /*")
	if err := atoll.Restore(ctx, sb, "before"); err != nil {
		log.Fatal(err)
	}
	fmt.Print(run("cat /file"))
	// Output: precious
}

func ExampleFork() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	atoll.WriteFile(ctx, sb, "/plan", []byte("A"), 0o644)

	other, err := atoll.Fork(ctx, sb, "", atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Destroy(ctx)
	atoll.WriteFile(ctx, other, "/plan", []byte("B"), 0o644)

	a, _ := atoll.ReadFile(ctx, sb, "/plan")
	b, _ := atoll.ReadFile(ctx, other, "/plan")
	fmt.Println(string(a), string(b))
	// Output: A B
}

func ExampleReadFile() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	if err := atoll.WriteFile(ctx, sb, "/work/in.txt", []byte("b\na\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	if _, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"sort", "-o", "/work/out.txt", "/work/in.txt"}}); err != nil {
		log.Fatal(err)
	}
	out, err := atoll.ReadFile(ctx, sb, "/work/out.txt")
	fmt.Printf("%q %v\n", out, err)

	_, err = atoll.ReadFile(ctx, sb, "/missing")
	fmt.Println(errors.Is(err, atoll.ErrNotFound))
	// Output:
	// "a\nb\n" <nil>
	// true
}

func ExampleError() {
	ctx := context.Background()
	_, err := virtual.New().Create(ctx, atoll.Spec{Image: "debian"})
	var fault *atoll.Error
	fmt.Println(errors.As(err, &fault) && fault.Op == "create", errors.Is(err, atoll.ErrUnsupported))
	// Output: true true
}
