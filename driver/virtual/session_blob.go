package virtual

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// maxSessionBlob is the largest blob of a session in bytes. A larger session is stored in parts, which
// fit into messages between a worker and its parent.
const maxSessionBlob = 4 << 20

// sessionPartsMagic begins a blob that lists the keys of the parts of a session, one in a line.
const sessionPartsMagic = "atoll session in parts\n"

// putSession stores an encoded session and returns its name.
func putSession(blobs blobStore, b []byte) (string, error) {
	if len(b) > maxSessionBlob {
		list := []byte(sessionPartsMagic)
		for part := range slices.Chunk(b, maxSessionBlob) {
			name, err := putSessionBlob(blobs, part)
			if err != nil {
				return "", err
			}
			list = append(append(list, name...), '\n')
		}
		b = list
	}
	return putSessionBlob(blobs, b)
}

func putSessionBlob(blobs blobStore, b []byte) (string, error) {
	key := vfs.Key(sha256.Sum256(b))
	has, err := blobs.Has(key)
	if err == nil && !has {
		err = blobs.Put(key, b)
	}
	return key.String(), err
}

// getSession returns the encoded session with a name.
func getSession(blobs blobStore, name string) ([]byte, error) {
	b, err := getSessionBlob(blobs, name)
	if err != nil {
		return nil, err
	}
	parts, ok := parseSessionParts(b)
	if !ok {
		return b, nil
	}
	var all []byte
	for _, part := range parts {
		b, err := getSessionBlob(blobs, part)
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return all, nil
}

func getSessionBlob(blobs blobStore, name string) ([]byte, error) {
	key, err := vfs.ParseKey(name)
	if err != nil {
		return nil, err
	}
	b, err := blobs.Get(key)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", name, err)
	}
	return b, nil
}

// sessionParts returns the names of the other blobs of a session.
func sessionParts(blobs blobStore, name string) ([]string, error) {
	b, err := getSessionBlob(blobs, name)
	if err != nil {
		return nil, err
	}
	parts, _ := parseSessionParts(b)
	return parts, nil
}

// parseSessionParts returns the keys in a blob that lists parts. It reports false for an encoded
// session.
func parseSessionParts(b []byte) ([]string, bool) {
	list, ok := bytes.CutPrefix(b, []byte(sessionPartsMagic))
	if !ok {
		return nil, false
	}
	return strings.Fields(string(list)), true
}
