# A kernel of a code interpreter: it runs the code of each request line in one namespace, and writes
# one JSON object per line. Programs' output to descriptors 1 and 2 is part of it.
import ast, asyncio, base64, builtins, io, json, linecache, os, subprocess, sys, threading, traceback

wire = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
write_lock = threading.Lock()
END = b"\x00atoll-end\x00"


def send(kind, **fields):
    fields["type"] = kind
    with write_lock:
        wire.write(json.dumps(fields, default=str) + "\n")
        wire.flush()


class Capture:
    """Capture sends what is written to a descriptor, and can wait until all of it was sent."""

    def __init__(self, fd, kind):
        self.fd, self.kind, self.ended = fd, kind, threading.Event()
        read, write = os.pipe()
        os.dup2(write, fd)
        os.close(write)
        threading.Thread(target=self.copy, args=(read,), daemon=True).start()

    def copy(self, read):
        rest = b""
        while True:
            piece = os.read(read, 32768)
            if not piece:
                return
            data = rest + piece
            at = data.find(END)
            ended = at >= 0
            if ended:
                data, rest = data[:at] + data[at + len(END):], b""
            else:  # the mark, or a character, may be cut
                keep = next((n for n in range(min(len(END) - 1, len(data)), 0, -1) if END.startswith(data[-n:])), 0)
                for n in range(1, 4):
                    if not keep and len(data) >= n and data[-n] >= 0xC0:
                        keep = n if n < (2 if data[-n] < 0xE0 else 3 if data[-n] < 0xF0 else 4) else 0
                        break
                data, rest = (data[:-keep], data[-keep:]) if keep else (data, b"")
            if data:
                send(self.kind, text=data.decode("utf-8", "replace"))
            if ended:
                self.ended.set()

    def drain(self):
        self.ended.clear()
        os.write(self.fd, END)
        self.ended.wait(10)


def main_module():
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    return module.__dict__


FORMATS = [
    ("html", "_repr_html_", "text/html"), ("markdown", "_repr_markdown_", "text/markdown"), ("svg", "_repr_svg_", "image/svg+xml"),
    ("png", "_repr_png_", "image/png"), ("jpeg", "_repr_jpeg_", "image/jpeg"), ("pdf", "_repr_pdf_", "application/pdf"),
    ("latex", "_repr_latex_", "text/latex"), ("json", "_repr_json_", "application/json"), ("javascript", "_repr_javascript_", "application/javascript"),
]


def plain(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def describe(value):
    fields = {}
    bundle = None
    if not isinstance(value, type):
        try:
            bundle = value._repr_mimebundle_(include=None, exclude=None)
        except Exception:
            bundle = None
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    for name, method, mime in FORMATS:
        found = (bundle or {}).get(mime)
        if found is None and not isinstance(value, type):
            try:
                found = getattr(value, method)()
            except Exception:
                found = None
        if isinstance(found, tuple):
            found = found[0]
        if found is not None:
            fields[name] = plain(found)
    if type(value).__module__.startswith("matplotlib") and hasattr(value, "savefig"):
        fields["png"] = picture(value)
    if isinstance(value, (dict, list)) and "json" not in fields:
        try:
            fields["json"] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            pass
    fields["text"] = (bundle or {}).get("text/plain") or repr(value)
    return fields


def picture(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return plain(out.getvalue())


def display(*values, **_):
    for value in values:
        send("result", is_main_result=False, **describe(value))


def show_figures(*_, **__):
    plt = sys.modules.get("matplotlib.pyplot")
    for number in plt.get_fignums() if plt else []:
        send("result", is_main_result=False, text=repr(plt.figure(number)), png=picture(plt.figure(number)))
    if plt:
        plt.close("all")


def run_shell(command):
    subprocess.run(command, shell=True, check=False)


def translate(code):
    """translate turns the lines that begin with ! or %pip into calls of the shell."""
    lines = []
    for line in code.split("\n"):
        text = line.lstrip()
        indent = line[: len(line) - len(text)]
        if text.startswith("!"):
            line = indent + "__run_shell__(" + repr(text[1:]) + ")"
        elif text.startswith("%pip ") or text.startswith("%conda "):
            line = indent + "__run_shell__(" + repr(sys.executable + " -m " + text[1:].replace("conda", "pip", 1)) + ")"
        elif text.startswith("%matplotlib"):
            line = indent + "pass"
        lines.append(line)
    return "\n".join(lines)


def parse(code, name):
    try:
        return ast.parse(code, name)
    except SyntaxError:
        changed = translate(code)
        if changed == code:
            raise
        return ast.parse(changed, name)


def run(code, space, count):
    name = "<cell %d>" % count
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    for part, mode in ((tree, "exec"), (last, "eval")):
        if part is None or mode == "exec" and not part.body:
            continue
        value = eval(compile(part, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
        if asyncio.iscoroutine(value) and (mode == "exec" or value.cr_code.co_filename == name):
            value = loop.run_until_complete(value)
        if mode == "eval" and value is not None:
            space["_"] = value
            send("result", is_main_result=True, **describe(value))


def run_cell(request, space, count):
    before = {k: os.environ.get(k) for k in request.get("env") or {}}
    os.environ.update(request.get("env") or {})
    try:
        run(request["code"], space, count)
        if "matplotlib.pyplot" in sys.modules:
            show_figures()
    except BaseException as e:
        trace = e.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        send("error", name=type(e).__name__, value=str(e), traceback="".join(traceback.format_exception(type(e), e, trace)))
    finally:
        for k, v in before.items():
            if v is None:
                os.environ.pop(k, None)
            else:
                os.environ[k] = v


os.environ.setdefault("MPLBACKEND", "Agg")
captures = [Capture(1, "stdout"), Capture(2, "stderr")]
sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="replace", line_buffering=True)
sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="replace", line_buffering=True)
sys.path.insert(0, "")
sys.argv = [""]
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
space = main_module()
space["display"], space["__run_shell__"] = display, run_shell
count = 0
send("ready")
while True:
    try:
        line = requests.readline()
    except KeyboardInterrupt:
        continue
    if not line:
        break
    count += 1
    send("number_of_executions", execution_count=count)
    try:
        run_cell(json.loads(line), space, count)
    except KeyboardInterrupt:
        pass
    while True:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            for c in captures:
                c.drain()
            send("end_of_execution")
            break
        except KeyboardInterrupt:
            continue
