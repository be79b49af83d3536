import asyncio, contextlib, sys, time, traceback, warnings, atexit

async def work(n, delay):
    await asyncio.sleep(delay)
    return n * 2

async def main():
    print(await asyncio.gather(work(1, 0.02), work(2, 0.01)))
    try:
        await asyncio.wait_for(work(3, 5), 0.01)
    except asyncio.TimeoutError:
        print("timeout")
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(print, "left")

try:
    asyncio.run(main())
except Exception as e:
    print(type(e).__name__, e)

def gen():
    try:
        x = yield 1
        print("got", x)
        yield from (2, 3)
    finally:
        print("closed")
g = gen()
print(next(g), g.send("v"), next(g))
g.close()

try:
    try:
        1 / 0
    except ZeroDivisionError as e:
        raise ValueError("bad") from e
except ValueError as e:
    print(type(e.__cause__).__name__, traceback.format_exception_only(e))
try:
    raise ExceptionGroup("many", [ValueError(1), TypeError(2)])
except* ValueError as group:
    print(group.exceptions)
except* TypeError as group:
    print(group.exceptions)
begin = time.monotonic()
time.sleep(0.02)
print(time.monotonic() - begin >= 0.02)
atexit.register(print, "at exit")
print(sys.argv, sys.stdin.read(), __name__, __file__.rsplit("/", 1)[1])
sys.exit(3)
