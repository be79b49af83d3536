// Package fdpass sends JSON messages together with open files over Unix sockets, between
// processes of atoll on one host.
package fdpass
