package jq

// action is what follows an instruction.
type action uint8

const (
	goOn     action = iota
	goBack          // to the last choice
	goUnwind        // with m.err
	emit            // the top is an output of the program
)

type handler func(*machine, *instr) action

// run goes on to the next output.
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
	if m.charged > m.limitBytes {
		m.survey()
	}
	return m.loop()
}

func (m *machine) loop() (Value, bool) {
	for fuel := tickBatch; ; fuel-- {
		if fuel <= 0 {
			fuel = tickBatch
			m.tick(tickBatch)
			if m.charged > m.limitBytes {
				m.survey()
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
			if !m.raise(err) {
				return nil, false
			}
		case emit:
			return m.pop(), true
		}
	}
}

// fail unwinds with err.
func (m *machine) fail(err error) action {
	m.err = err
	return goUnwind
}

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
	opFork:        func(m *machine, in *instr) action { m.fork(forkJump, in.a); return goOn },
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
	opTruth:       func(m *machine, _ *instr) action { m.replace(truthy(m.peek())); return goOn },
	opCall:        (*machine).doCall,
	opTailCall:    (*machine).doCall,
	opParam:       (*machine).doParam,
	opTailParam:   (*machine).doParam,
	opReturn:      (*machine).doReturn,
	opNative:      (*machine).doNative,
	opTryBegin:    func(m *machine, in *instr) action { m.fork(forkTry, in.a); return goOn },
	opTryEnd:      (*machine).doTryEnd,
	opAlternative: func(m *machine, in *instr) action { m.fork(forkAlt, in.a); return goOn },
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

func (m *machine) doConst(in *instr) action {
	m.pop()
	m.push(in.x)
	return goOn
}

func (m *machine) doSwap(*instr) action {
	a, b := m.pop(), m.pop()
	m.push(a)
	m.push(b)
	return goOn
}

func (m *machine) doSub(in *instr) action {
	m.track.sub++
	v := m.peekAt(in.a)
	if in.b != 0 {
		share(v)
	}
	m.push(v)
	return goOn
}

func (m *machine) doSubEnd(*instr) action {
	m.track.sub--
	share(m.peek())
	return goOn
}

// outer returns the frame n levels up.
func (m *machine) outer(n int32) *frame {
	f := m.frame
	for range n {
		f = f.up
	}
	return f
}

func (m *machine) doLoad(in *instr) action {
	m.pop()
	m.push(share(m.outer(in.a).vars[in.b]))
	return goOn
}

func (m *machine) doTake(in *instr) action {
	m.pop()
	return m.doPushTake(in)
}

func (m *machine) doPushTake(in *instr) action {
	m.push(m.frame.vars[in.b])
	m.frame.vars[in.b] = nil
	return goOn
}

func (m *machine) doJumpIfNot(in *instr) action {
	if !truthy(m.pop()) {
		m.pc = in.a
	}
	return goOn
}

func (m *machine) doForkDrop(in *instr) action {
	v := m.pop()
	m.push(nil)
	m.fork(forkJump, in.a)
	m.pop()
	m.push(v)
	return goOn
}

func (m *machine) doCollect(in *instr) action {
	m.alloc(headSize)
	m.frame.vars[in.b] = NewArray()
	return m.doForkDrop(in)
}

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

func (m *machine) doObject(*instr) action {
	m.alloc(headSize)
	v := m.pop()
	m.push(NewObject())
	m.push(v)
	return goOn
}

func (m *machine) doInsert(*instr) action {
	v, k := m.pop(), m.pop()
	key, ok := k.(string)
	if !ok {
		return m.fail(failf("Cannot use %s as object key", describe(k)))
	}
	m.insert(key, v)
	return goOn
}

func (m *machine) doInsertKey(in *instr) action {
	m.insert(in.x.(string), m.pop())
	return goOn
}

// insert puts a member into the object below the top.
func (m *machine) insert(key string, v Value) {
	input := m.pop()
	o := m.ownObject(m.pop().(*Object))
	m.setKey(o, key, v)
	m.push(o)
	m.push(input)
}

func (m *machine) doArith(in *instr) action {
	l, r := m.pop(), m.pop()
	v, err := in.x.(arithmetic)(m, l, r)
	if err != nil {
		return m.fail(err)
	}
	m.push(v)
	return goOn
}

func (m *machine) doArithConst(in *instr) action {
	c := in.x.(constOperand)
	v, err := c.fn(m, m.pop(), c.right)
	if err != nil {
		return m.fail(err)
	}
	m.push(v)
	return goOn
}

func (m *machine) doNegate(*instr) action {
	v := m.pop()
	f, ok := toFloat(v)
	if !ok {
		return m.fail(failf("%s cannot be negated", describe(v)))
	}
	m.push(-f)
	return goOn
}

func (m *machine) doCall(in *instr) action {
	t := in.x.(*target)
	f := &frame{code: t.body, ret: m.frame, pc: m.pc}
	if in.op == opTailCall {
		f.ret, f.pc = m.frame.ret, m.frame.pc
	}
	if t.level >= 0 {
		f.up = m.outer(t.level)
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
				f.args[i] = m.outer(arg.level).args[arg.slot]
			}
		}
	}
	m.enter(f)
	return goOn
}

func (m *machine) doParam(in *instr) action {
	c := m.outer(in.a).args[in.b]
	f := &frame{code: c.code, up: c.env, ret: m.frame, pc: m.pc}
	if in.op == opTailParam {
		f.ret, f.pc = m.frame.ret, m.frame.pc
	}
	m.alloc(frameSize + int64(c.code.vars)*valueSize)
	if c.code.vars > 0 {
		f.vars = make([]Value, c.code.vars)
	}
	m.enter(f)
	return goOn
}

func (m *machine) doReturn(*instr) action {
	f := m.frame
	if f.ret == nil {
		return emit
	}
	m.frame, m.pc = f.ret, f.pc
	return goOn
}

func (m *machine) doNative(in *instr) action {
	var few [4]Value
	args := few[:in.a]
	for i := range args {
		args[i] = m.pop()
	}
	v, err := in.x.(native)(m, m.pop(), args)
	if err != nil {
		return m.fail(err)
	}
	m.push(v)
	return goOn
}

func (m *machine) doTryEnd(*instr) action {
	if n := len(m.forks) - 1; n >= 0 && m.forks[n].kind == forkTry && m.forks[n].frame == m.frame {
		m.popFork()
		m.settleTop()
		return goOn
	}
	m.fork(forkDone, 0)
	return goOn
}

func (m *machine) doLabel(in *instr) action {
	m.labels++
	m.frame.vars[in.b] = m.labels
	m.fork(forkLabel, 0).next = m.labels
	return goOn
}

func (m *machine) doBreak(in *instr) action {
	id, _ := m.outer(in.a).vars[in.b].(float64)
	return m.fail(&breakError{id})
}

func (m *machine) doMark(in *instr) action {
	m.frame.vars[in.b] = float64(len(m.forks))
	m.fork(forkJump, in.a)
	return goOn
}

func (m *machine) doCut(in *instr) action {
	n, _ := m.frame.vars[in.b].(float64)
	m.drop(int(n))
	m.settleTop()
	return goOn
}

func (m *machine) doInput(*instr) action {
	m.pop()
	if m.host.Input == nil {
		return m.fail(failf("break"))
	}
	v, ok, err := m.host.Input()
	if err != nil {
		return m.fail(err)
	}
	if !ok {
		return m.fail(failf("break"))
	}
	m.push(v)
	return goOn
}
