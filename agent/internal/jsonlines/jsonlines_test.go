package jsonlines_test

import (
	"encoding/json"
	"testing"

	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

func TestDecode(t *testing.T) {
	type object struct {
		A int    `json:"a"`
		B string `json:"b"`
		C struct {
			D []int `json:"d"`
		} `json:"c"`
	}
	for name, c := range map[string]struct {
		text string
		ok   bool
		b    string
	}{
		"AsExpected":              {`{"a":1,"b":"x"}`, true, "x"},
		"OtherTypesAreLeftOut":    {`{"a":"one","b":"x"}`, true, "x"},
		"OtherTypesDeepDown":      {`{"c":{"d":{}},"b":"x"}`, true, "x"},
		"UnknownMembersAreNot":    {`{"z":[],"b":"x"}`, true, "x"},
		"AnArrayIsNoObject":       {`[1]`, false, ""},
		"AStringIsNoObject":       {`"b"`, false, ""},
		"TextIsNoObject":          {`b`, false, ""},
		"WhatIsCutIsNoObject":     {`{"b":"x"`, false, ""},
		"NothingIsNoObject":       {``, false, ""},
		"NullIsAnObjectOfNothing": {`null`, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var v object
			if ok := jsonlines.Decode([]byte(c.text), &v); ok != c.ok || v.B != c.b {
				t.Errorf("%v, %q", ok, v.B)
			}
		})
	}
}

func TestRawIsJSON(t *testing.T) {
	for _, line := range []string{`{"a":1}`, "text", "", "\xff\x00", `"`, `1`} {
		if !json.Valid(jsonlines.Raw([]byte(line))) {
			t.Errorf("%q", line)
		}
	}
}
