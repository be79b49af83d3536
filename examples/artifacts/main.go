// Command artifacts moves a directory into a sandbox and its results out, as tar streams.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"log"
	"testing/fstest"

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
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	if err := w.AddFS(fstest.MapFS{"in/a.txt": {Data: []byte("b\na\n")}, "in/b.txt": {Data: []byte("c\n")}}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	if err := sb.Import(ctx, "/tmp", &in); err != nil {
		log.Fatal(err)
	}
	if _, err := atoll.Execute(ctx, sb, "mkdir /tmp/out && sort /tmp/in/*.txt >/tmp/out/sorted.txt"); err != nil {
		log.Fatal(err)
	}
	b, err := atoll.ReadFile(ctx, sb, "/tmp/out/sorted.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", b)
}
