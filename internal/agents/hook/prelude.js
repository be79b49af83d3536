(function () {
  "use strict";
  // The API of hooks, built on the host's only function. The value of this script is
  // the function with which the host calls hooks.
  const native = globalThis.__host;
  for (const name of ["__host", "SharedArrayBuffer", "Atomics"]) delete globalThis[name];
  const { parse, stringify } = JSON;

  // The engine can't be interrupted while it iterates over an array: very long,
  // sparse arrays are refused.
  for (const name of Object.getOwnPropertyNames(Array.prototype)) {
    const method = Array.prototype[name];
    if (typeof method !== "function" || ["constructor", "at", "push", "pop", "entries", "keys", "values"].includes(name)) continue;
    const { [name]: walled } = {
      [name](...args) {
        const at = this !== null && this !== undefined ? this.length : 0;
        if (at > 2e7) throw new RangeError(`${name}: an array of ${at} elements is too long for a hook`);
        return Reflect.apply(method, this, args);
      },
    };
    Object.defineProperty(Array.prototype, name, { value: walled, writable: true, configurable: true });
  }

  // A list is an error: its code, message and fields.
  function host(op, ...args) {
    const r = native(op, ...args);
    if (!Array.isArray(r)) return r;
    const e = new Error(r[1]);
    e.code = r[0];
    if (r[2] !== undefined) Object.assign(e, parse(r[2]));
    throw e;
  }
  const read = (r) => (r === null || r === undefined ? null : parse(r));

  function text(value, what) {
    if (typeof value !== "string") throw new TypeError(`${what} must be a string, not ${value === null ? "null" : typeof value}`);
    return value;
  }

  // --- log and console ---
  function shown(v) {
    if (typeof v === "string") return v;
    if (v instanceof Error) return `${v.name}: ${v.message}`;
    try {
      const s = stringify(v);
      return s === undefined ? String(v) : s;
    } catch {
      return String(v);
    }
  }
  function line(args) {
    if (typeof args[0] === "string" && args.length > 1 && args[0].includes("%")) {
      let at = 1;
      const first = args[0].replace(/%[sdifvjoO%]/g, (m) => (m === "%%" ? "%" : at < args.length ? shown(args[at++]) : m));
      return [first, ...args.slice(at).map(shown)].join(" ");
    }
    return args.map(shown).join(" ");
  }
  let lines = 0;
  const logs = (level) => (...args) => {
    host("log", level, ++lines > 1000 ? "" : line(args));
  };
  const levels = { Trace: "trace", Debug: "debug", Info: "info", Warn: "warn", Error: "error", Fatal: "error" };
  const log = {};
  for (const name in levels) log[name] = logs(levels[name]);
  const console = { log: logs("info"), info: logs("info"), debug: logs("debug"), trace: logs("trace"), warn: logs("warn"), error: logs("error") };

  // --- timers: they run while the hook is awaited, and are dropped then ---
  let timers = [], lastTimer = 0;
  function setTimeout(f, ms = 0, ...args) {
    if (typeof f !== "function") throw new TypeError("setTimeout: the first argument must be a function");
    if (timers.length >= 1000) throw new RangeError("setTimeout: too many timers");
    timers.push({ id: ++lastTimer, due: host("now") + Math.max(0, Number(ms) || 0), f, args });
    return lastTimer;
  }
  function clearTimeout(id) {
    timers = timers.filter((t) => t.id !== id);
  }
  const first = () => timers.reduce((a, b) => (a === null || b.due < a.due ? b : a), null);
  function fire() {
    const t = first();
    if (t === null || t.due > host("now")) return;
    clearTimeout(t.id);
    t.f(...t.args);
  }

  // --- the sandbox ---
  function command(cmd, what) {
    if (typeof cmd === "string") return stringify(cmd);
    if (!Array.isArray(cmd) || cmd.length === 0) throw new TypeError(`${what}: the command must be a list of strings`);
    return stringify(cmd.map((a) => (typeof a === "number" ? String(a) : text(a, `${what}: an argument`))));
  }
  const files = {
    ReadFile: (path) => host("fs.read", text(path, "ReadFile: path")),
    WriteFile(path, content) {
      text(path, "WriteFile: path");
      if (content instanceof Uint8Array) return void host("fs.write", path, bytesToText(content), true);
      if (content instanceof ArrayBuffer) return void host("fs.write", path, bytesToText(new Uint8Array(content)), true);
      host("fs.write", path, text(content, "WriteFile: content"), false);
    },
    ReadFileBytes: (path) => textToBytes(host("fs.bytes", text(path, "ReadFileBytes: path"))),
  };
  // Bytes are passed as characters of the same number.
  function bytesToText(b) {
    let s = "";
    for (let i = 0; i < b.length; i += 8192) s += String.fromCharCode.apply(null, b.subarray(i, i + 8192));
    return s;
  }
  function textToBytes(s) {
    const b = new Uint8Array(s.length);
    for (let i = 0; i < s.length; i++) b[i] = s.charCodeAt(i);
    return b;
  }
  function makeSandbox(workdir) {
    return {
      workdir,
      ...files,
      ListDir: (path = ".") => parse(host("fs.list", text(path, "ListDir: path"))),
      Exec(cmd) {
        if (!Array.isArray(cmd)) throw new TypeError("Exec: the command must be a list of strings");
        return host("exec", command(cmd, "Exec"));
      },
    };
  }
  function makeComputer(id) {
    return {
      id,
      Info: () => parse(host("info")),
      Exec: (cmd, options = {}) => parse(host("run", command(cmd, "Exec"), stringify(options ?? {}))),
      Stream(cmd, options, callback) {
        if (typeof options === "function") [options, callback] = [{}, options];
        if (typeof callback !== "function") throw new TypeError("Stream: the callback must be a function");
        const stream = host("stream", command(cmd, "Stream"), stringify(options ?? {}));
        try {
          for (;;) {
            const type = host("stream.next", stream);
            if (type === "end") break;
            if (callback(type, host("stream.data", stream)) === false) break;
          }
        } finally {
          host("stream.stop", stream);
        }
        const exit = parse(host("stream.exit", stream));
        callback("exit", String(exit.exit_code));
        return exit;
      },
    };
  }
  function makeWorkspace() {
    const path = (op, what) => (name) => void host(op, text(name, `${what}: path`));
    const pair = (op, what) => (from, to) => void host(op, text(from, `${what}: from`), text(to, `${what}: to`));
    return {
      ...files,
      ReadDir: (name = ".") => parse(host("fs.list", text(name, "ReadDir: path"))),
      Stat: (name) => parse(host("fs.stat", text(name, "Stat: path"))),
      Exists: (name) => host("fs.exists", text(name, "Exists: path")),
      MkdirAll: path("fs.mkdir", "MkdirAll"),
      Remove: path("fs.remove", "Remove"),
      RemoveAll: path("fs.removeall", "RemoveAll"),
      Rename: pair("fs.rename", "Rename"),
      Copy: pair("fs.copy", "Copy"),
    };
  }

  // --- messages and memory ---
  function message(m) {
    if (typeof m === "string") return stringify({ type: "text", props: { content: m } });
    if (m === null || typeof m !== "object") throw new TypeError("a message must be an object or a string");
    return stringify(m);
  }
  const later = (op) => (id, m) => host("message", op, text(id, "the message's id"), message(m));
  const output = {
    Send: (m, id = "") => host("message", "send", text(id, "the message's id"), message(m)),
    SendStream: (m, id = "") => host("message", "stream", text(id, "the message's id"), message(m)),
    Append: later("append"),
    Merge: later("merge"),
    Replace: later("replace"),
    End: (id, m) => host("message", "end", text(id, "the message's id"), m === undefined || m === null ? "" : message(m)),
  };
  function space(name) {
    const get = (key) => read(host("memory.get", name, text(key, "key")));
    return {
      Get: get,
      Set(key, value, ttl = 0) {
        host("memory.set", name, text(key, "key"), stringify(value === undefined ? null : value), Number(ttl) || 0);
      },
      Del: (key) => void host("memory.delete", name, text(key, "key")),
      Has: (key) => host("memory.has", name, text(key, "key")),
      Keys: () => parse(host("memory.keys", name)),
      Clear: () => void host("memory.clear", name),
    };
  }

  function Process(name, ...args) {
    return read(host("process", text(name, "Process: the name"), stringify(args)));
  }

  for (const [name, value] of Object.entries({ log, console, Process, setTimeout, clearTimeout })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }

  // --- the driver for the host ---
  let hooks = {}, names = "", state = "none", result, failure;
  function find(plain, exported) {
    const from = exported && typeof exported === "object" ? exported : {};
    const other = from.default && typeof from.default === "object" ? from.default : {};
    for (const source of [other, plain, from]) {
      for (const name of Object.keys(source)) if (name !== "default" && typeof source[name] === "function") hooks[name] = source[name];
    }
    names = Object.keys(hooks).join(" ");
  }
  function thrown(e) {
    const told = { message: "", stack: "" };
    try {
      if (e instanceof Error) {
        told.message = String(e.message || e.name);
        told.stack = String(e.stack);
        told.name = String(e.name);
      } else {
        told.message = typeof e === "string" ? e : `thrown: ${stringify(e)}`;
        told.value = e === undefined ? null : e;
      }
      return stringify(told);
    } catch {
      return stringify({ message: told.message || "thrown: a value that can't be shown", stack: told.stack });
    }
  }
  function begin(name, world, args) {
    world = parse(world);
    const ctx = world.values;
    Object.assign(ctx, output);
    ctx.memory = {};
    for (const s of ["user", "team", "chat", "context"]) ctx.memory[s] = space(s);
    for (const n of ["sandbox", "computer", "workspace"]) delete ctx[n];
    if (world.sandbox) {
      ctx.sandbox = makeSandbox(world.sandbox.workdir);
      ctx.computer = makeComputer(world.sandbox.id);
      ctx.workspace = makeWorkspace();
    }
    const f = hooks[name];
    state = "pending";
    (async () => f(ctx, ...parse(args)))().then(
      (v) => {
        try {
          result = stringify(v);
          state = "done";
        } catch (e) {
          failure = thrown(e);
          state = "thrown";
        }
      },
      (e) => {
        failure = thrown(e);
        state = "thrown";
      },
    );
  }
  return function drive(op, ...args) {
    switch (op) {
      case "find": return find(...args);
      case "names": return names;
      case "begin": return begin(...args);
      case "state": return state;
      case "result": return result;
      case "failure": return failure;
      case "due": return first()?.due ?? -1;
      case "fire": return fire();
      case "thrown": return thrown(...args);
    }
  };
})()
