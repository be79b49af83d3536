package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// classifyText returns the type of a text, or "data" for anything else.
func classifyText(data []byte) kind {
	charset, name := detectEncoding(data)
	if charset == "binary" {
		return kind{"data", "application/octet-stream", "binary"}
	}
	k := kind{name + " text", "text/plain", charset}
	if charset == "utf-16le" || charset == "utf-16be" {
		k.text += describeTraits(data, true)
		return k
	}
	if what, mime, whole := detectText(data); what != "" {
		k.mime = mime
		if whole {
			k.text = what
			return k
		}
		k.text = what + ", " + k.text
		if strings.HasSuffix(what, " script") && mime != "text/x-php" {
			k.text += " executable"
		}
	}
	k.text += describeTraits(data, false)
	return k
}

// detectEncoding returns the charset and the name of the encoding of data.
func detectEncoding(data []byte) (charset, name string) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")) && len(data)%2 == 0:
		return "utf-16le", "Unicode text, UTF-16, little-endian"
	case bytes.HasPrefix(data, []byte("\xfe\xff")) && len(data)%2 == 0:
		return "utf-16be", "Unicode text, UTF-16, big-endian"
	}
	ascii := true
	for _, c := range data {
		if c < ' ' && (c < '\a' || c > '\r') && c != 0x1b || c == 0x7f {
			return "binary", "data"
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	switch {
	case ascii:
		return "us-ascii", "ASCII"
	case utf8.Valid(data) || len(data) == maxExamined && utf8.Valid(data[:len(data)-3]):
		if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
			return "utf-8", "Unicode text, UTF-8 (with BOM)"
		}
		return "utf-8", "Unicode text, UTF-8"
	}
	for _, c := range data {
		if c >= 0x80 && c < 0xa0 {
			return "unknown-8bit", "Non-ISO extended-ASCII"
		}
	}
	return "iso-8859-1", "ISO-8859"
}

// interpreters are the descriptions of scripts by their interpreter.
var interpreters = []struct{ name, text, mime string }{
	{"bash", "Bourne-Again shell script", "text/x-shellscript"},
	{"dash", "POSIX shell script", "text/x-shellscript"},
	{"zsh", "Paul Falstad's zsh script", "text/x-shellscript"},
	{"ksh", "Korn shell script", "text/x-shellscript"},
	{"csh", "C shell script", "text/x-shellscript"},
	{"sh", "POSIX shell script", "text/x-shellscript"},
	{"python", "Python script", "text/x-script.python"},
	{"node", "Node.js script executable", "application/javascript"},
	{"perl", "Perl script text executable", "text/x-perl"},
	{"ruby", "Ruby script", "text/x-ruby"},
	{"php", "PHP script", "text/x-php"},
	{"awk", "awk script", "text/x-awk"},
	{"lua", "Lua script", "text/x-lua"},
	{"make", "makefile script", "text/x-makefile"},
}

// textSignatures are text formats that are recognized by a prefix.
var textSignatures = []struct{ prefix, text, mime string }{
	{"<?xml", "XML 1.0 document", "text/xml"},
	{"<?php", "PHP script", "text/x-php"},
	{"<!doctype html", "HTML document", "text/html"},
	{"<html", "HTML document", "text/html"},
	{"<head", "HTML document", "text/html"},
	{"diff ", "diff output", "text/x-diff"},
	{"--- a/", "unified diff output", "text/x-diff"},
	{"from: ", "news or mail", "message/news"},
	{"begin:vcard", "vCard visiting card", "text/vcard"},
	{".th ", "troff or preprocessor input", "text/troff"},
	{"{\\rtf", "Rich Text Format data", "text/rtf"},
}

// detectText returns the format of a text, if it is known; whole means that the description is complete.
func detectText(data []byte) (what, mime string, whole bool) {
	if bytes.HasPrefix(data, []byte("#!")) {
		return detectScript(data)
	}
	head := strings.ToLower(string(bytes.TrimLeft(data[:min(len(data), 64)], "\xef\xbb\xbf \t\r\n")))
	if strings.HasPrefix(head, "-----begin certificate") {
		return "PEM certificate", "text/plain", true
	}
	if strings.HasPrefix(head, "<svg") {
		return "SVG Scalable Vector Graphics image", "image/svg+xml", true
	}
	for _, b := range textSignatures {
		if strings.HasPrefix(head, b.prefix) {
			return b.text, b.mime, false
		}
	}
	if what := detectJSON(data); what != "" {
		return what, map[bool]string{true: "application/json", false: "application/x-ndjson"}[what == "JSON text data"], true
	}
	return detectCode(data)
}

// detectScript returns the type of a script by its first line.
func detectScript(data []byte) (string, string, bool) {
	line, _, _ := strings.Cut(string(data[2:min(len(data), 256)]), "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return "", "", false
	}
	if strings.HasSuffix(fields[0], "/env") && len(fields) > 1 {
		fields = fields[1:]
	}
	name := fields[0][strings.LastIndexByte(fields[0], '/')+1:]
	for _, i := range interpreters {
		if strings.HasPrefix(name, i.name) {
			return i.text, i.mime, i.name == "perl"
		}
	}
	return "a " + strings.TrimSpace(line) + " script", "text/plain", false
}

// detectJSON distinguishes one JSON value from several, one a line.
func detectJSON(data []byte) string {
	first := bytes.TrimLeft(data, " \t\r\n")
	if len(first) == 0 || first[0] != '{' && first[0] != '[' {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(data))
	n := 0
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ""
		}
		n++
	}
	if n == 1 {
		return "JSON text data"
	}
	return "New Line Delimited JSON text data"
}

// detectCode recognizes source code and tables by their lines.
func detectCode(data []byte) (string, string, bool) {
	text := "\n" + string(data[:min(len(data), 8<<10)])
	has := func(list ...string) bool {
		for _, s := range list {
			if strings.Contains(text, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("\n#include <", "\n#include \"", "\ntypedef struct", "\nint main(", "\npackage "):
		return "C source", "text/x-c", false
	case has("\ndef ") && has("\nimport ", "):\n") || has("\nimport os\n", "\nimport sys\n") || has("\nfrom ") && has(" import "):
		return "Python script", "text/x-script.python", false
	case isCSV(data):
		return "CSV text", "text/csv", true
	}
	return "", "", false
}

// isCSV reports whether there are several lines with equal numbers of commas.
func isCSV(data []byte) bool {
	commas, n := -1, 0
	for line := range bytes.Lines(data) {
		c := bytes.Count(line, []byte(","))
		if c == 0 || commas >= 0 && c != commas {
			return false
		}
		commas = c
		if n++; n == 10 {
			return true
		}
	}
	return n >= 2
}
