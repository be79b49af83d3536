package jsonrpc_test

import (
	"encoding/json"
	"testing"

	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		kind jsonrpc.Kind
		what string // method
	}{
		"AnswerHasTheMethodOfItsCall":   {`{"jsonrpc":"2.0","id":1,"result":{}}`, jsonrpc.Response, "first"},
		"IDsMayComeBackAsStrings":       {`{"id":"1","result":null}`, jsonrpc.Response, "first"},
		"AnErrorIsAnAnswer":             {`{"id":1,"error":{"code":-1,"message":"no"}}`, jsonrpc.Response, "first"},
		"AnswersToNothingAreStrange":    {`{"id":7,"result":{}}`, jsonrpc.Unknown, ""},
		"RequestsHaveAnyID":             {`{"id":"a-b","method":"ask","params":[1]}`, jsonrpc.Request, "ask"},
		"IDZeroIsAnID":                  {`{"id":0,"method":"ask"}`, jsonrpc.Request, "ask"},
		"NoticesHaveNoID":               {`{"method":"told","params":{}}`, jsonrpc.Notification, "told"},
		"ANullIDIsNone":                 {`{"id":null,"method":"told"}`, jsonrpc.Notification, "told"},
		"WhatIsNotJSONIsStrange":        {`Listening on stdio`, jsonrpc.Unknown, ""},
		"OtherJSONIsStrange":            {`[1]`, jsonrpc.Unknown, ""},
		"AnEmptyObjectIsStrange":        {`{}`, jsonrpc.Unknown, ""},
		"MembersOfOtherTypesAreStrange": {`{"id":1,"method":{}}`, jsonrpc.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var p jsonrpc.Peer
			p.Call("first", nil)
			m, kind := p.Parse([]byte(c.line))
			if kind != c.kind || m.Method != c.what {
				t.Errorf("got kind %d, method %q; want %d, %q", kind, m.Method, c.kind, c.what)
			}
		})
	}
}

func TestAnswersComeOnce(t *testing.T) {
	var p jsonrpc.Peer
	p.Call("a", nil)
	p.Call("b", map[string]int{"x": 1})
	if !p.IsPending("b") {
		t.Error("b was asked")
	}
	if m, kind := p.Parse([]byte(`{"id":2,"result":1}`)); kind != jsonrpc.Response || m.Method != "b" {
		t.Errorf("got %v %q", kind, m.Method)
	}
	if _, kind := p.Parse([]byte(`{"id":2,"result":1}`)); kind != jsonrpc.Unknown {
		t.Errorf("a second answer is %v", kind)
	}
	if p.IsPending("b") || !p.IsPending("a") {
		t.Error("a waits, b does not")
	}
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"Call":   {string(new(jsonrpc.Peer).Call("m", nil)), `{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`},
		"Bare":   {string((&jsonrpc.Peer{OmitVersion: true}).Notify("m", nil)), `{"method":"m","params":{}}`},
		"Answer": {string(new(jsonrpc.Peer).Reply(json.RawMessage(`"x"`), 5)), `{"jsonrpc":"2.0","id":"x","result":5}`},
		"Refuse": {string(new(jsonrpc.Peer).ReplyError(json.RawMessage(`0`), jsonrpc.MethodNotFound, "no")), `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}`},
	} {
		if c.got != c.want+"\n" {
			t.Errorf("%s: %s", name, c.got)
		}
	}
}

func FuzzTake(f *testing.F) {
	for _, s := range []string{`{"id":1,"result":{}}`, `{"id":"1"}`, `{"method":"a","id":[]}`, `"`, `{"id":"`, `{"id":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p jsonrpc.Peer
		p.Call("a", nil)
		m, kind := p.Parse(line)
		if kind == jsonrpc.Response && m.Method != "a" {
			t.Errorf("an answer to %q", m.Method)
		}
		if kind == jsonrpc.Request {
			p.ReplyError(m.ID, jsonrpc.MethodNotFound, "no")
		}
	})
}
