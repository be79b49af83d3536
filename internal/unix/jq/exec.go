package jq

// action tells the machine how to continue after an instruction.
type action uint8

const (
	goOn     action = iota // with the next instruction
	goBack                 // backtracks to the last choice
	goUnwind               // unwinds with m.err
	emit                   // the top is an output of the program
)

// handler executes an instruction.
type handler func(*machine, *instr) action

// run executes the program up to its next output. ok is false at the end or after an error, which
// is in m.err.
func (m *machine) run() (v Value, ok bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooDeep:
			v, ok = nil, false
			m.err = failf("Value nested too deeply")
		default:
			panic(r)
		}
	}()
	if m.charged > m.measureAt {
		m.measureLive()
	}
	return m.runLoop()
}

// runLoop executes instructions up to the next output.
func (m *machine) runLoop() (Value, bool) {
	for fuel := tickBatch; ; fuel-- {
		if fuel <= 0 {
			fuel = tickBatch
			m.tick(tickBatch)
			if m.charged > m.measureAt {
				m.measureLive()
			}
		}
		in := &m.frame.code.ins[m.pc]
		m.pc++
		switch handlers[in.op](m, in) {
		case goBack:
			if !m.backtrack() {
				return nil, false
			}
		case goUnwind:
			err := m.err
			m.err = nil
			if !m.raiseError(err) {
				return nil, false
			}
		case emit:
			return m.pop(), true
		}
	}
}

// unwindWith sets the error to unwind with.
func (m *machine) unwindWith(err error) action {
	m.err = err
	return goUnwind
}

// handlers has the handler of each instruction.
var handlers = [...]handler{
	opNop:         func(*machine, *instr) action { return goOn },
	opConst:       (*machine).doConst,
	opDup:         func(m *machine, _ *instr) action { m.push(share(m.peek())); return goOn },
	opPop:         func(m *machine, _ *instr) action { m.pop(); return goOn },
	opSwap:        (*machine).doSwap,
	opSub:         (*machine).doSub,
	opSubEnd:      (*machine).doSubEnd,
	opUntrack:     func(m *machine, _ *instr) action { m.track.sub++; return goOn },
	opTrack:       func(m *machine, _ *instr) action { m.track.sub--; return goOn },
	opStore:       func(m *machine, in *instr) action { m.frame.vars[in.b] = m.pop(); return goOn },
	opStoreDup:    func(m *machine, in *instr) action { m.frame.vars[in.b] = share(m.peek()); return goOn },
	opLoad:        (*machine).doLoad,
	opTake:        (*machine).doTake,
	opPushTake:    (*machine).doPushTake,
	opClear:       func(m *machine, in *instr) action { m.frame.vars[in.b] = nil; return goOn },
	opJump:        func(m *machine, in *instr) action { m.pc = in.a; return goOn },
	opJumpIfNot:   (*machine).doJumpIfNot,
	opFork:        func(m *machine, in *instr) action { m.pushFork(forkJump, in.a); return goOn },
	opForkDrop:    (*machine).doForkDrop,
	opBacktrack:   func(*machine, *instr) action { return goBack },
	opIndex:       (*machine).doIndex,
	opField:       (*machine).doField,
	opSliceKey:    (*machine).doSliceKey,
	opEach:        (*machine).doEach,
	opRange:       (*machine).doRange,
	opCollect:     (*machine).doCollect,
	opAppend:      (*machine).doAppend,
	opObject:      (*machine).doObject,
	opInsert:      (*machine).doInsert,
	opInsertKey:   (*machine).doInsertKey,
	opText:        (*machine).doText,
	opArith:       (*machine).doArith,
	opArithConst:  (*machine).doArithConst,
	opNegate:      (*machine).doNegate,
	opTruth:       func(m *machine, _ *instr) action { m.replaceTop(isTrue(m.peek())); return goOn },
	opCall:        (*machine).doCall,
	opTailCall:    (*machine).doCall,
	opParam:       (*machine).doParam,
	opTailParam:   (*machine).doParam,
	opReturn:      (*machine).doReturn,
	opNative:      (*machine).doNative,
	opTryBegin:    func(m *machine, in *instr) action { m.pushFork(forkTry, in.a); return goOn },
	opTryEnd:      (*machine).doTryEnd,
	opAlternative: func(m *machine, in *instr) action { m.pushFork(forkAlt, in.a); return goOn },
	opLabel:       (*machine).doLabel,
	opBreak:       (*machine).doBreak,
	opMark:        (*machine).doMark,
	opCut:         (*machine).doCut,
	opPathBegin:   (*machine).doPathBegin,
	opPathEnd:     (*machine).doPathEnd,
	opGetPath:     (*machine).doGetPath,
	opSetKeys:     (*machine).doSetKeys,
	opUpdateKeys:  (*machine).doUpdateKeys,
	opGetKeys:     (*machine).doGetKeys,
	opDeleteKeys:  (*machine).doDeleteKeys,
	opGetAt:       (*machine).doGetAt,
	opSetAt:       (*machine).doSetAt,
	opDeletePath:  (*machine).doDeletePath,
	opDeletePaths: (*machine).doDeletePaths,
	opInput:       (*machine).doInput,
}

// doConst executes opConst.
func (m *machine) doConst(in *instr) action {
	m.pop()
	m.push(in.x)
	return goOn
}

// doSwap executes opSwap.
func (m *machine) doSwap(*instr) action {
	a, b := m.pop(), m.pop()
	m.push(a)
	m.push(b)
	return goOn
}

// doSub executes opSub.
func (m *machine) doSub(in *instr) action {
	m.track.sub++
	v := m.peekAt(in.a)
	if in.b != 0 {
		share(v)
	}
	m.push(v)
	return goOn
}

// doSubEnd executes opSubEnd.
func (m *machine) doSubEnd(*instr) action {
	m.track.sub--
	share(m.peek())
	return goOn
}

// outerFrame returns the frame n levels up.
func (m *machine) outerFrame(n int32) *frame {
	f := m.frame
	for range n {
		f = f.up
	}
	return f
}

// doLoad executes opLoad.
func (m *machine) doLoad(in *instr) action {
	m.pop()
	m.push(share(m.outerFrame(in.a).vars[in.b]))
	return goOn
}

// doTake executes opTake.
func (m *machine) doTake(in *instr) action {
	m.pop()
	return m.doPushTake(in)
}

// doPushTake executes opPushTake.
func (m *machine) doPushTake(in *instr) action {
	m.push(m.frame.vars[in.b])
	m.frame.vars[in.b] = nil
	return goOn
}

// doJumpIfNot executes opJumpIfNot.
func (m *machine) doJumpIfNot(in *instr) action {
	if !isTrue(m.pop()) {
		m.pc = in.a
	}
	return goOn
}

// doForkDrop executes opForkDrop.
func (m *machine) doForkDrop(in *instr) action {
	v := m.pop()
	m.push(nil)
	m.pushFork(forkJump, in.a)
	m.pop()
	m.push(v)
	return goOn
}

// doCollect executes opCollect.
func (m *machine) doCollect(in *instr) action {
	m.alloc(headSize)
	m.frame.vars[in.b] = NewArray()
	return m.doForkDrop(in)
}

// doAppend executes opAppend.
func (m *machine) doAppend(in *instr) action {
	a := m.frame.vars[in.b].(*Array)
	v := m.pop()
	if len(a.Items) == cap(a.Items) {
		m.alloc(int64(max(4, len(a.Items))) * valueSize)
	}
	if _, ok := v.(float64); ok {
		m.alloc(8)
	}
	a.Items = append(a.Items, v)
	return goBack
}

// doObject executes opObject.
func (m *machine) doObject(*instr) action {
	m.alloc(headSize)
	v := m.pop()
	m.push(NewObject())
	m.push(v)
	return goOn
}

// doInsert executes opInsert.
func (m *machine) doInsert(*instr) action {
	v, k := m.pop(), m.pop()
	key, ok := k.(string)
	if !ok {
		return m.unwindWith(failf("Cannot use %s as object key", describeValue(k)))
	}
	m.insertMember(key, v)
	return goOn
}

// doInsertKey executes opInsertKey.
func (m *machine) doInsertKey(in *instr) action {
	m.insertMember(in.x.(string), m.pop())
	return goOn
}

// insertMember stores a member in the object below the top.
func (m *machine) insertMember(key string, v Value) {
	input := m.pop()
	o := m.ownObject(m.pop().(*Object))
	m.setKey(o, key, v)
	m.push(o)
	m.push(input)
}

// doArith executes opArith.
func (m *machine) doArith(in *instr) action {
	l, r := m.pop(), m.pop()
	v, err := in.x.(operatorFunc)(m, l, r)
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(v)
	return goOn
}

// doArithConst executes opArithConst.
func (m *machine) doArithConst(in *instr) action {
	c := in.x.(constOperand)
	v, err := c.fn(m, m.pop(), c.right)
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(v)
	return goOn
}

// doNegate executes opNegate.
func (m *machine) doNegate(*instr) action {
	v := m.pop()
	f, ok := toFloat(v)
	if !ok {
		return m.unwindWith(failf("%s cannot be negated", describeValue(v)))
	}
	m.push(-f)
	return goOn
}

// doCall executes opCall and opTailCall.
func (m *machine) doCall(in *instr) action {
	t := in.x.(*target)
	f := &frame{code: t.body, ret: m.frame, pc: m.pc}
	if in.op == opTailCall {
		f.ret, f.pc = m.frame.ret, m.frame.pc
	}
	if t.level >= 0 {
		f.up = m.outerFrame(t.level)
	}
	m.alloc(frameSize + int64(t.body.vars+len(t.args))*valueSize)
	if t.body.vars > 0 {
		f.vars = make([]Value, t.body.vars)
	}
	if len(t.args) > 0 {
		f.args = make([]closure, len(t.args))
		for i, arg := range t.args {
			if arg.body != nil {
				f.args[i] = closure{arg.body, m.frame}
			} else {
				f.args[i] = m.outerFrame(arg.level).args[arg.slot]
			}
		}
	}
	m.enterFrame(f)
	return goOn
}

// doParam executes opParam and opTailParam.
func (m *machine) doParam(in *instr) action {
	c := m.outerFrame(in.a).args[in.b]
	f := &frame{code: c.code, up: c.env, ret: m.frame, pc: m.pc}
	if in.op == opTailParam {
		f.ret, f.pc = m.frame.ret, m.frame.pc
	}
	m.alloc(frameSize + int64(c.code.vars)*valueSize)
	if c.code.vars > 0 {
		f.vars = make([]Value, c.code.vars)
	}
	m.enterFrame(f)
	return goOn
}

// doReturn executes opReturn.
func (m *machine) doReturn(*instr) action {
	f := m.frame
	if f.ret == nil {
		return emit
	}
	m.frame, m.pc = f.ret, f.pc
	return goOn
}

// doNative executes opNative.
func (m *machine) doNative(in *instr) action {
	var few [4]Value
	args := few[:in.a]
	for i := range args {
		args[i] = m.pop()
	}
	v, err := in.x.(native)(m, m.pop(), args)
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(v)
	return goOn
}

// doTryEnd executes opTryEnd.
func (m *machine) doTryEnd(*instr) action {
	if n := len(m.forks) - 1; n >= 0 && m.forks[n].kind == forkTry && m.forks[n].frame == m.frame {
		m.popFork()
		m.settleTop()
		return goOn
	}
	m.pushFork(forkDone, 0)
	return goOn
}

// doLabel executes opLabel.
func (m *machine) doLabel(in *instr) action {
	m.labels++
	m.frame.vars[in.b] = m.labels
	m.pushFork(forkLabel, 0).next = m.labels
	return goOn
}

// doBreak executes opBreak.
func (m *machine) doBreak(in *instr) action {
	id, _ := m.outerFrame(in.a).vars[in.b].(float64)
	return m.unwindWith(&breakError{id})
}

// doMark executes opMark.
func (m *machine) doMark(in *instr) action {
	m.frame.vars[in.b] = float64(len(m.forks))
	m.pushFork(forkJump, in.a)
	return goOn
}

// doCut executes opCut.
func (m *machine) doCut(in *instr) action {
	n, _ := m.frame.vars[in.b].(float64)
	m.dropForks(int(n))
	m.settleTop()
	return goOn
}

// doInput executes opInput.
func (m *machine) doInput(*instr) action {
	m.pop()
	if m.host.Input == nil {
		return m.unwindWith(failf("break"))
	}
	v, ok, err := m.host.Input()
	if err != nil {
		return m.unwindWith(err)
	}
	if !ok {
		return m.unwindWith(failf("break"))
	}
	m.push(v)
	return goOn
}
