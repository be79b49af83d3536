// Package jq is the jq language: a streaming JSON reader and printer, a
// compiler, and a machine that runs programs within a budget.
//
// A program becomes a list of instructions that work on one stack. Generators
// are choices on a second stack that the machine comes back to, so neither
// recursion nor backtracking uses the stack of Go, and a call at the end of a
// body replaces the body. Values are changed in place while they have one
// owner, so loops that build an array or object take linear time. What is alive
// is measured now and then, and the rest is given back to the budget.
//
// What a program means is what jq 1.7 makes of it, with the functions of 1.8.
package jq
