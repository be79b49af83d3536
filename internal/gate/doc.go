// Package gate is the way out of a sandbox: a process without rights, one for
// each sandbox that reaches anything, which takes every connection and every
// name that programs inside ask for, decides by the rules of the network
// (package policy), dials, and writes down what it did.
//
// Drivers start one with [Start], on a connection to the guest of its own; it
// lives until that connection ends. Others find it with [Open].
package gate
