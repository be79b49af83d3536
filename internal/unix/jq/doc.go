// Package jq implements the jq language: a streaming JSON reader and printer, a compiler, and a
// machine that runs programs within a budget.
//
// A program is compiled to instructions that work on one stack. Generators are choices on a second
// stack, to which the machine backtracks, so neither recursion nor backtracking uses the stack of
// Go, and a call at the end of a body replaces the body. Values are changed in place while they
// have one owner, so loops that build an array or object take linear time. The machine measures its
// live memory from time to time and frees the rest in the budget.
//
// Programs behave as in jq 1.7, with the functions of 1.8.
package jq
