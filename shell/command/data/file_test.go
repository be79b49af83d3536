package data_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestFileAgreesWithTheRealOne(t *testing.T) {
	tree := []string{
		"t=hello\n", "crlf=a\r\nb\r\n", "nn=no newline", "u8=café\n", "l1=caf\xe9\n", "u16=\xff\xfeh\x00i\x00", "0755 sh=#!/bin/sh\necho\n", "py=#!/usr/bin/env python3\nimport x\n", "j={\"a\":1}", "ja=[1,2]\n",
		"xml=<?xml version=\"1.0\"?>\n<a/>\n", "html=<html><body></body></html>\n", "h5=<!DOCTYPE html>\n<html>", "empty=", "z=\x00\x00\x00\x00\x00\x00", "p.png=\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10\x00\x00\x00\x20\x08\x06\x00\x00\x00",
		"g.gif=GIF89a\x10\x00\x20\x00", "j.jpg=\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00", "d.pdf=%PDF-1.4\n", "d/", "l->t", "bl->nope", "c.c=#include <stdio.h>\nint main(void){return 0;}\n", "m.py=import os\ndef f():\n  pass\n",
		"x.csv=a,b,c\n1,2,3\n4,5,6\n", "esc=\x1b[31mred\x1b[0m\n", "y.yml=---\na: 1\n", "cr=a\rb\r", "bom=\xef\xbb\xbfbom\n", "w.wav=RIFF\x00\x00\x00\x00WAVEfmt ", "cl=\xca\xfe\xba\xbe\x00\x00\x00\x34", "php=<?php echo 1;",
		"diff=diff --git a/x b/x\n--- a/x\n+++ b/x\n", "cert=-----BEGIN CERTIFICATE-----\nabc\n", "bash=#!/bin/bash\n", "pl=#!/usr/bin/perl -w\n", "node=#!/usr/bin/env node\n", "wasm=\x00asm\x01\x00\x00\x00", "b2=BZh9", "nd={\"a\":1}\n{\"a\":2}\n",
		"svg=<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>\n", "z7=7z\xbc\xaf\x27\x1c\x00\x04", "mix=a\r\nb\n", "bz.bz2=" + commandtest.HelloBzip2, "tar=" + commandtest.BuildTar(t),
	}
	var cases []commandtest.Case
	for _, f := range []string{
		"t", "crlf", "nn", "u8", "l1", "u16", "sh", "py", "j", "ja", "xml", "html", "h5", "empty", "z", "p.png", "g.gif", "j.jpg", "d.pdf", "d", "l", "bl", "c.c", "m.py", "x.csv", "esc", "y.yml", "cr", "bom", "w.wav", "cl", "php",
		"diff", "cert", "bash", "pl", "node", "wasm", "b2", "nd", "svg", "z7", "mix", "bz.bz2", "nofile", "-L l", "-b t", "-i t", "--mime-type t", "--mime-encoding u8", "-i j", "t p.png j", "-N t p.png", "-F: t", "-", "-h l", "-bi sh", "--mime-type d",
	} {
		cases = append(cases, commandtest.Case{Run: "file " + f, Tree: tree, Loose: true, Stdin: "text\n"})
	}
	commandtest.Compare(t, cases)
}
