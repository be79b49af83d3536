# The first code of an interpreter: it reads its job and runs it as __main__. No name of it stays in __main__.
def __boot():
    import sys
    safe = sys.flags.safe_path
    if not safe and sys.path and sys.path[0] == "":
        del sys.path[0]  # there are no files yet
    import json, os, runpy, traceback
    from importlib.machinery import PathFinder, SourceFileLoader
    main = sys.modules["__main__"]
    space = main.__dict__
    space.pop("__boot", None)

    text, fd = b"", os.open("/proc/self/atoll-job", os.O_RDONLY)
    while part := os.read(fd, 1 << 16):
        text += part
    os.close(fd)
    job = json.loads(text)
    mode, code = job["mode"], job["code"]

    if "env" in job:
        want = dict(v.partition("=")[::2] for v in job["env"])
        for name in list(os.environ):
            if name not in want:
                del os.environ[name]
        os.environ.update(want)
    sys.argv[:] = job["argv"]
    sys.orig_argv[:] = job["orig"]
    sys.executable = sys._base_executable = "/usr/bin/python3"
    try:
        os.chdir(job["cwd"])
    except OSError:
        pass
    for name in [n for n, finder in sys.path_importer_cache.items() if finder is None]:
        del sys.path_importer_cache[name]

    # WASI has no permissions. The host sends those of a file with its device, and takes a link with a special text for chmod.
    def patch(real):
        def stat(*args, **options):
            s = real(*args, **options)
            mode, device = s.st_mode | s.st_dev >> 32, s.st_dev & 0xFFFFFFFF
            times = {n: getattr(s, n) for n in ("st_atime", "st_mtime", "st_ctime", "st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
            return os.stat_result((mode, s.st_ino, device) + tuple(s)[3:], times)

        stat.__name__ = stat.__qualname__ = real.__name__
        stat.__doc__ = real.__doc__
        return stat

    for name in ("stat", "lstat", "fstat"):
        setattr(os, name, patch(getattr(os, name)))
    symlink = os.symlink

    def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
        symlink("\x01atoll-chmod:%o" % (mode & 0o7777), os.fspath(path) if not isinstance(path, bytes) else os.fsdecode(path), dir_fd=dir_fd)

    os.chmod = chmod

    def access(path, mode, *, dir_fd=None, effective_ids=False, follow_symlinks=True):
        try:
            s = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        except OSError:
            return False
        return not mode & os.X_OK or s.st_mode & 0o170111 != 0o100000

    os.access = access

    # What follows is changed when it is imported.
    def loop(module):
        # The loop of asyncio wakes itself through a pair of sockets; without threads nothing needs that.
        base = module.BaseSelectorEventLoop
        base._make_self_pipe = base._close_self_pipe = base._write_to_self = lambda self: None

    def sockets(module):
        def refuse(*args, **options):
            raise OSError(58, "a virtual sandbox has no sockets: use curl, if hosts are allowed, or a driver with real processes")

        module.socket.__init__ = module.getaddrinfo = module.gethostbyname = refuse
        module.socket.__del__ = lambda self: None

    class Loader:
        def __init__(self, loader, change):
            self.loader, self.change = loader, change

        def __getattr__(self, name):
            return getattr(self.loader, name)

        def create_module(self, spec):
            return self.loader.create_module(spec)

        def exec_module(self, module):
            module.__loader__ = module.__spec__.loader = self.loader
            self.loader.exec_module(module)
            self.change(module)

    class Changes:
        names = {"asyncio.selector_events": loop, "socket": sockets}

        def find_spec(self, name, path=None, target=None):
            change = self.names.pop(name, None)
            if change is None:
                return None
            spec = PathFinder.find_spec(name, path)
            spec.loader = Loader(spec.loader, change)
            return spec

    sys.meta_path.insert(0, Changes())

    def put(first):
        if not safe:
            sys.path.insert(0, first)

    def show(error, until):
        tb = error.__traceback__
        while tb is not None and not until(tb.tb_frame):
            tb = tb.tb_next
        error.__traceback__ = tb
        sys.excepthook(type(error), error, tb)
        sys.stderr.flush()

    def fail(message):
        sys.stderr.write(message + "\n")
        raise SystemExit(2)

    if mode == "prompt":
        import code as shell
        put("")
        try:
            import readline
        except ImportError:
            pass
        cprt = 'Type "help", "copyright", "credits" or "license" for more information.'
        shell.interact("Python %s on %s\n%s" % (sys.version, sys.platform, cprt), local=space, exitmsg="")
        return

    if mode == "m":
        put(os.getcwd())
        sys.argv[0] = "-m"
        try:
            runpy._run_module_as_main(code)
        except SystemExit:
            raise
        except BaseException as error:
            show(error, lambda f: f.f_code.co_filename == "<frozen runpy>")
            raise SystemExit(1) from None
        return

    if mode == "c":
        put("")
        name, source = "<string>", code.encode("utf-8", "surrogateescape")
    elif mode == "stdin":
        put("")
        name, source = "<stdin>", sys.stdin.buffer.read()
    else:
        path = code if code.startswith("/") else os.path.join(os.getcwd(), code)
        if os.path.isdir(path) or path.endswith((".zip", ".pyz", ".whl")):
            put(path)
            if not any(os.path.exists(os.path.join(path, "__main__" + e)) for e in (".py", ".pyc")) and os.path.isdir(path):
                fail("/usr/bin/python3: can't find '__main__' module in %r" % path)
            try:
                runpy._run_module_as_main("__main__", False)
            except SystemExit:
                raise
            except BaseException as error:
                show(error, lambda f: f.f_code.co_filename == "<frozen runpy>")
                raise SystemExit(1) from None
            return
        try:
            with open(path, "rb") as f:
                source = f.read()
        except OSError as error:
            fail("/usr/bin/python3: can't open file %r: [Errno %d] %s" % (path, error.errno, error.strerror))
        put(os.path.dirname(os.path.realpath(path)))
        name = path
        space["__file__"] = path
        space["__cached__"] = None
        space["__loader__"] = SourceFileLoader("__main__", path)
    program = None
    try:
        program = compile(source, name, "exec", dont_inherit=True)
        exec(program, space)
    except SystemExit:
        raise
    except BaseException as error:
        show(error, lambda f: f.f_code is program)
        raise SystemExit(1) from None


__boot()
