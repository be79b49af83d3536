package javascript_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/javascript"
)

// scripts are programs whose output and status must be those of node 20.
var scripts = []string{
	`console.log('hello', 1, true, null, undefined, 10n, -0, NaN, Symbol('s'))`,
	`console.log({a:1,b:'x',c:[1,2,{d:[]}],e:{},f:null,'g-h':undefined}, [1,'a',[2,[3,[4,[5]]]]])`,
	`console.log({a:{b:{c:{d:1}}}}, [[[[1]]]], [undefined,,3,,,], Array.from({length:120},(_, i)=>i))`,
	`console.log(new Map([['a',1],[{k:1},[2]]]), new Set([1,'b']), new Date(0), /re/g, [new Date(86400000)])`,
	`class A{constructor(){this.x=1}} class B extends A{} console.log(new A(), new B(), A, B, [A], function f(){}, ()=>{}, async()=>{}, function*g(){}, {f(){}, g:()=>1})`,
	`const o={name:'circ'};o.self=o;console.log(o);console.log(Object.create(null),{get a(){return 1},set b(v){}},[1.5,-2,3e21],"it's",['it\'s','a"b','x\ny'])`,
	`console.log(['apple','banana','cherry','date','elderberry','fig','grape','honeydew'], Array.from({length:30},(_, i)=>i*i), 'x'.repeat(3))`,
	`console.log({longPropertyNameNumberOne:'some long value here',longPropertyNameNumberTwo:'another long value',three:[1,2,3],nested:{deep:{deeper:{deepest:true}}}})`,
	`console.log('%s is %d years and %i, %f, %j %O %%', 'Bob', 42.5, 42.9, 1.5, {a:1}, {b:2}, 'extra', {c:3})`,
	`console.log(Buffer.from('héllo'), Buffer.from('68656c6c6f','hex').toString(), Buffer.from('hello').toString('base64'), Buffer.concat([Buffer.from('a'),Buffer.from('b')]).toString('hex'), Buffer.from('aGk=','base64').toString('utf8'), Buffer.alloc(3), new Uint8Array([1,2]))`,
	`const p=require('path');console.log(p.join('/a','..','b','./c'),p.resolve('/x','y','../z'),p.basename('/a/b.txt','.txt'),p.extname('a.b.c'),p.dirname('/a/b/c'),p.relative('/a/b/c','/a/d'),p.parse('/home/u/f.txt'),p.normalize('/a//b/../c/'),p.isAbsolute('a'))`,
	`const fs=require('fs');fs.writeFileSync('out.txt','one\ntwo\n');fs.appendFileSync('out.txt','three');console.log(fs.readFileSync('out.txt','utf8').split('\n'),fs.existsSync('nope'),fs.statSync('out.txt').size,fs.readdirSync('.').sort());fs.mkdirSync('d/e',{recursive:true});fs.renameSync('out.txt','d/e/x');fs.rmSync('d',{recursive:true})`,
	`const fs=require('fs');try{fs.readFileSync('nope')}catch(e){console.log(e.code,e.message,e.syscall,e.path)}try{fs.mkdirSync('dir')}catch(e){console.log(e.code)}try{fs.readdirSync('nope')}catch(e){console.log(e.message)}console.log(fs.readdirSync('dir',{withFileTypes:true}).map(d=>[d.name,d.isFile()]))`,
	`require('fs').promises.readFile('data.json','utf8').then(t=>console.log(JSON.parse(t))).finally(()=>console.log('done'))`,
	`require('fs').readFile('nope',(e,d)=>console.log(e.code,d))`,
	`setTimeout(()=>console.log('t2'),20);setTimeout(()=>console.log('t1'),5);Promise.resolve().then(()=>console.log('micro'));process.nextTick(()=>console.log('tick'));console.log('sync')`,
	`async function main(){await null;console.log(1);await new Promise(r=>setTimeout(r,5));console.log(2);throw new Error('boom')}
main()`,
	`let n=0;const t=setInterval(()=>{console.log(++n);if(n===3)clearInterval(t)},2);process.on('exit',c=>console.log('exit',c))`,
	`setTimeout(()=>console.log('huge'),2**31);setTimeout(()=>console.log('later'),50);for(let n=0;n<6;n++){const b=Buffer.from('\xff\x00a\xfez'.slice(0,n),'latin1');console.log(b.toString('hex'),b.toString('base64'),b.toString('base64url'))}`,
	`console.log([1].concat([2],3,{length:1,0:4,[Symbol.isConcatSpreadable]:true}),Array.prototype.map.call('abc',x=>x+x),Array.prototype.join.call({length:2,0:'a',1:'b'}),String.raw({raw:['a\\n','b']},1),String.raw({raw:'xyz'},0,1,2));const o={length:2,0:2,1:1};console.log(Array.prototype.sort.call(o)===o,o,new Proxy([1,2],{}).map(x=>x*2),Proxy.name,typeof Proxy.revocable({},{}).proxy);class P extends Array{};console.log(P.from([1]).concat([2]),Array.from({length:2,0:'a'}),Array.from('ab',x=>x+x),Array.from(new Set([1])),P.from({length:1}),Array.from({length:3},(_, i)=>i*i));(function(){console.log(Array.prototype.slice.call(arguments,1))})(1,2,3)`,
	`process.exitCode=3;console.log(process.argv.length,process.argv.slice(2),typeof process.env.HOME,process.platform,process.cwd()===__dirname)`,
	`console.log('before');process.exit(4);console.log('after')`,
	`throw new TypeError('bad')`, `null.x`, `let x = ;`, `undefinedFunction()`,
	`const {execSync,spawnSync,exec}=require('child_process');console.log(execFile('echo'));function execFile(c){return require('child_process').execFileSync(c,['hi there']).toString()};console.log(spawnSync('cat',{input:'piped'}).stdout.toString(),spawnSync('false').status,spawnSync('nope-x').error.code)`,
	`const m=require('./lib');console.log(m.add(1,2),m.name,require('./data.json').k,require('./dir'),require('pkg'),require('pkg/sub'));try{require('./none')}catch(e){console.log(e.code)}`,
	`const E=require('events');const e=new E();e.on('a',(x,y)=>console.log('a',x,y));e.once('a',()=>console.log('once'));e.emit('a',1,2);e.emit('a',3);console.log(e.listenerCount('a'),e.emit('none'))`,
	`const a=require('assert');a.strictEqual(1,1);a.deepStrictEqual({a:[1]},{a:[1]});a.throws(()=>{throw new Error('x')},/x/);try{a.strictEqual(1,2)}catch(e){console.log(e.name,e.code,e.message)}try{a(false,'msg')}catch(e){console.log(e.message)}`,
	`const u=new URL('https://user:pw@example.com:8080/a/../b?x=1&y=two#frag');console.log(u.href,u.host,u.pathname,u.search,u.searchParams.get('y'),u.hash,u.origin);console.log(new URL('../c?d','http://h/a/b/').href,new URLSearchParams({a:'1 2',b:'&'}).toString())`,
	`const c=require('crypto');console.log(c.createHash('sha256').update('abc').digest('hex'),c.createHmac('sha1','k').update('d').digest('base64'),c.createHash('md5').update('a').update('b').digest('hex'),c.randomBytes(4).length,c.randomUUID().length)`,
	`const {promisify,inspect,format,isDeepStrictEqual,types}=require('util');console.log(inspect({a:{b:{c:{}}}},{depth:0}),inspect('s'),format('%s-%s',1,2),isDeepStrictEqual([1],[1]));promisify((x,cb)=>cb(null,x+1))(1).then(console.log)`,
	`console.table([{a:1,b:'x'},{a:2,c:true}]);console.group('G');console.log('in\nside');console.groupEnd();console.log('out');console.error('to stderr');console.count();console.count();console.dir({a:1})`,
	`const {Readable}=require('stream');let s='';process.stdin.setEncoding('utf8');process.stdin.on('data',d=>s+=d);process.stdin.on('end',()=>console.log(s.trim().split('\n').map(Number).reduce((a,b)=>a+b,0)))`,
	`const rl=require('readline').createInterface({input:process.stdin});let n=0;rl.on('line',l=>console.log(++n,l)).on('close',()=>console.log('closed'))`,
	`(async()=>{for await(const l of require('readline').createInterface({input:process.stdin}))console.log('>',l)})()`,
	`console.log(require('fs').readFileSync(0,'utf8').length, [3,1,2].toSorted(), Object.groupBy?'g':'g', [1,2,3].at(-1), structuredClone({a:new Date(0)}), 'abc'.replaceAll('b','x'), [1,[2,[3]]].flat(Infinity), 2n**64n, 0.1+0.2, parseInt('12px'))`,
	`label: for (const i of [1,2]) { for (const j of [1,2]) { if (j===2) continue label; console.log(i,j) } } const {a=1,...r}={b:2,c:3}; console.log(a,r,a?.b?.c,a??2); console.log([..."ab"].map((c,i)=>c+i), String.raw` + "`\\n${1}`" + `)`,
	`const e=new Error('outer',{cause:new Error('inner')});console.log(e.cause.message,e instanceof Error,String(e));class MyErr extends Error{constructor(m){super(m);this.name='MyErr';this.extra=1}};try{throw new MyErr('m')}catch(x){console.log(x.name,x.message,x.extra,x instanceof MyErr,` + "`${x}`" + `)}`,
	`console.log(JSON.stringify({a:[1,{b:2}],c:undefined,d:()=>1,e:new Date(0)},null,2));console.log(JSON.parse('{"x":[1,2]}').x);try{JSON.parse('{bad')}catch(e){console.log(e.name)}`,
	`import('./esm.mjs').then(m=>console.log(m.add(1,2),m.default)).then(()=>import('fs')).then(m=>console.log(typeof m.readFileSync))`,
	`const g=function*(){yield 1;yield 2};console.log([...g()],g());const w=new WeakMap();const s=Symbol('q');console.log({[s]:1},Object.entries({a:1}),new Proxy({a:1},{}));console.log([['a',1],['b',2]],{a:[{b:1},{c:2}]},[{}],[[]],new (class Foo{})())`,
}

// modules are scripts in a file with the ending .mjs.
var modules = []string{
	`import fs, {readFileSync} from 'node:fs'; import path from 'path'; import {add} from './esm.mjs'; import lib from './lib.js'; import data from './data.json' with {type:'json'}; console.log(add(1,2), lib.name, typeof readFileSync, path.sep, fs.existsSync('esm.mjs'), data.k)`,
	`const t = await Promise.resolve(5); console.log(t, import.meta.url.startsWith('file://')); const m = await import('./esm.mjs'); console.log(m.default, Object.keys(m))`,
	`import pkg from 'pkg'; import {join} from 'node:path'; console.log(pkg, join('a','b')); export const x = 1; throw new Error('at the end')`,
	`import './missing.mjs'`, `import {createRequire} from 'module'; const require = createRequire(import.meta.url); console.log(require('./lib').name)`, `console.log(typeof require, typeof module, this); await 0; console.log('last')`,
}

// TestNode compares scripts with node 20.
func TestNode(t *testing.T) {
	tree := []string{"data.json={\"k\": [1, 2]}\n", "lib.js=exports.add=(a,b)=>a+b;exports.name='lib';\n", "dir/index.js=module.exports='dir index'\n", "node_modules/pkg/package.json={\"name\":\"pkg\",\"exports\":{\".\":\"./main.js\",\"./sub\":\"./s.js\"}}", "node_modules/pkg/main.js=module.exports='pkg main'\n", "node_modules/pkg/s.js=module.exports='pkg sub'\n", "esm.mjs=export const add=(a,b)=>a+b; export default 'esm default'\n"}
	var cases []commandtest.Case
	for _, s := range scripts {
		cases = append(cases, commandtest.Case{Name: s, Run: "node x.js one two", Tree: append([]string{"x.js=" + s + "\n"}, tree...), Stdin: "1\n2\n3\n", Loose: true})
	}
	for _, s := range modules {
		cases = append(cases, commandtest.Case{Name: s, Run: "node x.mjs", Tree: append([]string{"x.mjs=" + s + "\n"}, tree...), Loose: true})
	}
	for _, line := range []string{"node -e 'console.log(1+1, process.argv.length)' a b", "node -p 1+1", "node -p '({a:1})'", "node -p '[1,2].map(x=>x*2)'", "node nofile.js", "node -e 'require(\"fs\").writeFileSync(\"o\",\"x\")'", "node --input-type=module -e 'import fs from \"fs\"; console.log(typeof fs)'", "node -c lib.js", "node --bad-option", "node -"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Stdin: "console.log('from stdin')\n", Loose: true})
	}
	for i := range cases {
		cases[i].Rare = true
	}
	commandtest.Compare(t, cases, javascript.Commands()...)
}

// TestBombs checks that scripts that never end, or that take any memory, are stopped, and that their memory is freed.
func TestBombs(t *testing.T) {
	s := commandtest.New(t, "/w", javascript.Commands()...)
	for _, code := range []string{
		"while(true){}", "for(;;)try{for(;;){}}catch{}", "const a=[];for(;;)a.push(new Array(1000).fill(1))", "let s='x';for(;;)s+=s", "new Array(1e9).join('x')", "[].indexOf.call({length:2**53-1},1)", "const a=[];a.length=2**32-1;a.indexOf(1)", "'a'.repeat(2**29)",
		"/(a+)+b/.test('a'.repeat(40))", "(function f(){f()})()", "Promise.resolve().then(function f(){return Promise.resolve().then(f)})", "setInterval(()=>{},0)", "for(;;)process.nextTick(()=>{})", "(function f(){process.nextTick(f)})()", "for(;;)console.log('x'.repeat(1000))", "while(1)try{throw 1}finally{continue}",
		"JSON.parse('['.repeat(1e6))", "new Function('('.repeat(1e6))", "for(;;)require('fs').appendFileSync('big','x'.repeat(65536))", "for(;;)require('child_process').execFileSync('cat',['/dev/null'])", "require('child_process').execFileSync('cat',['/dev/zero'])", "require('crypto').randomBytes(1e9)", "2n**100000000n", "new Uint8Array(1e9)", "Buffer.alloc(3e7).toString('hex')", "process.on('exit',()=>{for(;;);})",
		"async function f(){for(;;)await null}f()", "for(let m=new Map(),i=0;;i++)m.set(i,{i})", "'x'.padEnd(1e8).split('')", "Object.defineProperty(globalThis,'x',{get(){for(;;);}});x", "[1,2].sort(()=>{for(;;);})", "JSON.stringify({toJSON(){for(;;);}})", "String.raw({raw:{length:1e9}})", "[].concat({length:2**53-1,[Symbol.isConcatSpreadable]:true})", "[].concat(Object.assign([],{length:2**32-1}))", "Array.prototype.toLocaleString.call({length:2**52})", "let n=0;Array.prototype.indexOf.call({get length(){return n++?2**53-1:1}},1)",
		"let n=0;Array.prototype.forEach.call(new Proxy([],{get(t,k){return k==='length'?(n++?2**53-1:1):t[k]}}),()=>{})", "let n=0;Array.prototype.some.call(Proxy.revocable([],{get(t,k){return k==='length'?(n++?2**53-1:1):t[k]}}).proxy,()=>{})", "Array.from({length:1e9})", "Array.from({get length(){return 2**53-1}})", "require('fs').readFileSync('/dev/zero')",
	} {
		s.WriteFile("bomb.js", code)
		commandtest.RunHostile(t, s, "", "node", "bomb.js")
		s.Exec("", "rm", "-f", "big")
	}
	for end := time.Now().Add(10 * time.Second); s.Kernel.Memory() != 0 && time.Now().Before(end); {
		runtime.Gosched() // on a busy machine an engine may end after its process
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Run(ctx, strings.NewReader(""), nil, "node", "-e", "for(;;);"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an endless script ended with %v", err)
	}
}

// TestRefusedSaysWhatToUse checks that modules and options that are missing name another way.
func TestRefusedSaysWhatToUse(t *testing.T) {
	s := commandtest.New(t, "/w", javascript.Commands()...)
	s.WriteFile("x.ts", "let a: number = 1\n")
	for _, args := range [][]string{{"node", "-e", "require('http')"}, {"node", "-e", "require('node:zlib')"}, {"node", "-e", "import('net').catch(e => { console.error(e.message); process.exit(1) })"}, {"node", "x.ts"}, {"node", "--test"}, {"node", "-e", "fetch('http://example.com').catch(e => { console.error(e.cause.message); process.exit(1) })"}} {
		if o := s.Exec("", args...); o.Code == 0 || !strings.Contains(o.Stderr, "use ") && !strings.Contains(o.Stderr, "run ") && !strings.Contains(o.Stderr, "allow") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// TestListingsCostNothing: a script may list a large directory as often as it likes.
func TestListingsCostNothing(t *testing.T) {
	s := commandtest.New(t, "/w", javascript.Commands()...)
	o := s.Exec("", "node", "-e", "const fs = require('fs'); fs.mkdirSync('l'); for (let i = 0; i < 5000; i++) fs.writeFileSync('l/' + i, ''); for (let i = 0; i < 150; i++) fs.readdirSync('l'); console.log(fs.readdirSync('l').length)")
	if o.Code != 0 || o.Stdout != "5000\n" {
		t.Errorf("%+v", o)
	}
}
