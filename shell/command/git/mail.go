package git

import (
	"fmt"
	"mime"
	"strings"
)

// formatMail returns the head and the message of a commit as a mail.
func (l *logRun) formatMail(k *commit, prefix string) string {
	name, mail, at := splitIdentity(k.author)
	_, body, _ := strings.Cut(strings.TrimLeft(k.message, "\n"), "\n\n")
	text := fmt.Sprintf("From %s Mon Sep 17 00:00:00 2001\nFrom: %s <%s>\nDate: %s\nSubject: %s\n", k.id, encodeWord(name), mail, at.Format("Mon, 2 Jan 2006 15:04:05 -0700"), encodeWord(prefix+k.subject()))
	if !isASCII(k.message) || !isASCII(name) {
		text += "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
	}
	return text + "\n" + strings.TrimLeft(body, "\n")
}

func isASCII(s string) bool {
	for n := range len(s) {
		if s[n] >= 0x80 {
			return false
		}
	}
	return true
}

// encodeWord encodes a text of a mail's head if it is not ASCII.
func encodeWord(s string) string {
	if isASCII(s) {
		return s
	}
	return mime.QEncoding.Encode("UTF-8", s)
}
