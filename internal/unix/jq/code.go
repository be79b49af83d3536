package jq

// code is a compiled body: the main program, a definition or a closure.
type code struct {
	name string
	ins  []instr
	vars int // variable slots of each call
}

// instr is an instruction. Every filter replaces its input on top of the stack with its output.
type instr struct {
	op   op
	a, b int32
	x    any
}

// op is the kind of an instruction.
type op uint8

const (
	opNop         op = iota
	opConst          // replaces the top with x
	opDup            // pushes the top again
	opPop            // drops the top
	opSwap           // exchanges the two topmost values
	opSub            // pushes the value a below the top again, shared if b is set, and stops tracking paths
	opSubEnd         // tracks paths again and marks the top as shared
	opUntrack        // stops tracking paths
	opTrack          // tracks paths again
	opStore          // pops into variable b
	opStoreDup       // copies the top into variable b
	opLoad           // replaces the top with variable b of the frame a levels up
	opTake           // replaces the top with variable b and clears the variable
	opPushTake       // pushes variable b and clears the variable
	opClear          // sets variable b to null
	opJump           // jumps to a
	opJumpIfNot      // pops; jumps to a if the value is null or false
	opFork           // makes a choice: backtracking resumes at a with the same stack
	opForkDrop       // makes a choice: backtracking resumes at a with null in place of the top
	opBacktrack      // backtracks to the last choice
	opIndex          // pops the target and, below it, the key; pushes the element
	opField          // replaces the top with its element x
	opSliceKey       // pops to and from, pushes the key of that slice
	opEach           // replaces the top with each of its elements
	opRange          // pops from and to, replaces the top with each number
	opCollect        // begins an array in variable b; backtracking resumes at a
	opAppend         // pops into the array in variable b and backtracks
	opObject         // pushes an empty object below the top
	opInsert         // pops value and key, stores them in the object below the top
	opInsertKey      // pops the value, stores it under key x in the object below the top
	opText           // pops a values, replaces the top with the text x that interpolates them
	opArith          // pops the left and the right operand, pushes the result of operator x
	opArithConst     // replaces the top with the result of an operator on it and a constant
	opNegate         // replaces the top with its negative
	opTruth          // replaces the top with true or false
	opCall           // calls x
	opTailCall       // calls x and replaces the current body
	opParam          // calls closure b of the frame a levels up
	opTailParam      // calls the closure and replaces the current body
	opReturn         // returns from the current body
	opNative         // calls x with a arguments
	opTryBegin       // an error before opTryEnd jumps to a, with the error as the top
	opTryEnd         // ends the range of opTryBegin
	opAlternative    // any later error jumps to a, with the same stack
	opLabel          // makes a choice for breaks and stores its number in variable b
	opBreak          // breaks to label b of the frame a levels up
	opMark           // makes a choice that resumes at a, and stores the number of choices in variable b
	opCut            // drops the choices since the mark in variable b
	opPathBegin      // begins to track a path
	opPathEnd        // replaces the top with the path
	opGetPath        // pops a path, replaces the top with the value there
	opSetKeys        // pops a value, stores it at the keys x of the top
	opUpdateKeys     // pops a value, combines it with the value at the keys x of the top
	opGetKeys        // pushes the value at the keys x of the top
	opDeleteKeys     // deletes the value at the keys x of the top
	opGetAt          // pushes the value in variable a at the path in variable b
	opSetAt          // pops a value, stores it in variable a at the path in variable b
	opDeletePath     // adds the path in variable b to the paths to delete in variable a
	opDeletePaths    // deletes the paths in variable b from the top
	opInput          // replaces the top with the next input
)

// target is a callee: its body, the frame that it was defined in, level levels up (-1 for none),
// and its arguments.
type target struct {
	body  *code
	level int32
	args  []argument
}

// argument is a closure to create: a body in the calling frame, or a parameter that is passed on.
type argument struct {
	body  *code
	level int32 // if body is nil: parameter slot of the frame level levels up
	slot  int32
}

// keySpec is a key of a path that is known when compiling: a constant or a variable.
type keySpec struct {
	value       Value
	variable    bool
	level, slot int32
}

// keyPath is a path of known keys, with the operator of an update.
type keyPath struct {
	keys []keySpec
	op   operatorFunc
}
