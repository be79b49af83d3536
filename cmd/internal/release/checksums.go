package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeChecksums publishes SHA256SUMS, which sha256sum -c reads.
func (r *release) writeChecksums(context.Context) error {
	var b bytes.Buffer
	slices.Sort(r.files)
	for _, name := range r.files {
		sum, err := r.readDigest(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return r.writeArtifact(checksums, b.Bytes(), 0o644)
}

// checksums is the name of the file with the digests of all others.
const checksums = "SHA256SUMS"

// readDigest returns the SHA-256 of a published file.
func (r *release) readDigest(name string) (string, error) {
	b, err := readPublished(r.out, name)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// signChecksums publishes the signature of SHA256SUMS, and the line that verifies it. OpenSSH signs: it is on
// every system that atoll runs on, and its signatures of Ed25519 are the same each time.
func (r *release) signChecksums(ctx context.Context) error {
	if r.key == "" {
		return nil
	}
	file := filepath.Join(r.out, checksums)
	if _, err := runCommand(ctx, "", nil, "ssh-keygen", "-Y", "sign", "-f", r.key, "-n", "atoll-release", file); err != nil {
		return err
	}
	r.files = append(r.files, checksums+".sig")
	public, err := os.ReadFile(strings.TrimSuffix(r.key, ".pub") + ".pub")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(public))
	if len(fields) < 2 {
		return fmt.Errorf("%s.pub is no public key", r.key)
	}
	return r.writeArtifact("allowed_signers", fmt.Appendf(nil, "%s namespaces=\"atoll-release\" %s %s\n", r.identity, fields[0], fields[1]), 0o644)
}
