package jq

// code is one compiled body: the main program, a definition or a closure.
type code struct {
	name string
	ins  []instr
	vars int // slots for variables in each call
}

// instr is one step of a body. Every filter takes its input from the top of
// the stack and leaves its output there.
type instr struct {
	op   op
	a, b int32
	x    any
}

type op uint8

const (
	opNop         op = iota
	opConst          // replaces the top by x
	opDup            // pushes the top again
	opPop            // drops the top
	opSwap           // exchanges the two on top
	opSub            // pushes the value a below the top again, shared if b, and stops tracking paths
	opSubEnd         // tracks paths again; the top may be known elsewhere
	opUntrack        // stops tracking paths
	opTrack          // tracks paths again
	opStore          // pops into variable b
	opStoreDup       // copies the top into variable b
	opLoad           // replaces the top by variable b of the frame a levels up
	opTake           // replaces the top by variable b, which is emptied
	opPushTake       // pushes variable b, which is emptied
	opClear          // makes variable b null
	opJump           // to a
	opJumpIfNot      // pops; to a if null or false
	opFork           // comes back to a with the same stack
	opForkDrop       // comes back to a with null in place of the top
	opBacktrack      // goes back to the last choice
	opIndex          // pops the target and, below it, the key; pushes the element
	opField          // replaces the top by its element x
	opSliceKey       // pops to and from, pushes the key that stands for them
	opEach           // replaces the top by each of its elements
	opRange          // pops from and to, replaces the top by each number
	opCollect        // begins an array in variable b; comes back to a
	opAppend         // pops into the array in variable b and goes back
	opObject         // pushes an empty object below the top
	opInsert         // pops value and key, puts them into the object below the top
	opInsertKey      // pops the value, puts it under key x into the object below the top
	opText           // pops a values, replaces the top by the text x made of them
	opArith          // pops the left and the right operand, pushes the result of operator x
	opArithConst     // replaces the top by the result of it and a constant
	opNegate         // replaces the top by its negative
	opTruth          // replaces the top by true or false
	opCall           // calls x
	opTailCall       // calls x in place of this body
	opParam          // runs the closure b of the frame a levels up
	opTailParam      // runs it in place of this body
	opReturn         // ends this body
	opNative         // calls x with a arguments
	opTryBegin       // an error up to opTryEnd goes to a, with the error as the top
	opTryEnd         //
	opAlternative    // an error from here on goes to a, with the same stack
	opLabel          // marks the choice that a break goes back to, in variable b
	opBreak          // goes back to label b of the frame a levels up
	opMark           // comes back to a, unless cut; notes the choices in variable b
	opCut            // drops the choices since the mark in variable b
	opPathBegin      // begins to track a path
	opPathEnd        // replaces the top by the path
	opGetPath        // pops a path, replaces the top by what is there
	opSetKeys        // pops a value, puts it at the keys x of the top
	opUpdateKeys     // pops a value, calculates with it at the keys x of the top
	opGetKeys        // pushes what is at the keys x of the top
	opDeleteKeys     // deletes what is at the keys x of the top
	opGetAt          // pushes what is in variable a at the path in variable b
	opSetAt          // pops a value, puts it in variable a at the path in variable b
	opDeletePath     // adds the path in variable b to those to delete in variable a
	opDeletePaths    // deletes the paths in variable b from the top
	opInput          // replaces the top by the next input
)

// target is what opCall calls: body, with the frame that it was defined in
// level levels up (-1 for none) and closures for its parameters.
type target struct {
	body  *code
	level int32
	args  []argument
}

// argument is a closure to be made: a body in the calling frame, or a
// parameter handed on.
type argument struct {
	body  *code
	level int32 // body == nil: parameter slot of the frame level levels up
	slot  int32
}

// keySpec is one key of a path that is known beforehand: a constant, or a variable.
type keySpec struct {
	value       Value
	variable    bool
	level, slot int32
}

// keyPath is a path of such keys, and the operator of an update.
type keyPath struct {
	keys []keySpec
	op   arithmetic
}
