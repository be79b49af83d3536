import abc
import enum
import functools
from dataclasses import asdict, dataclass, field, replace

@dataclass(order=True, frozen=True)
class Point:
    x: int
    y: int = 0
    tags: list = field(default_factory=list, compare=False)

p = Point(1, 2, ["a"])
print(p, replace(p, x=5), asdict(p), sorted([Point(3), Point(1), Point(2)]))
try:
    p.x = 1
except Exception as e:
    print(type(e).__name__, e)

class Color(enum.Enum):
    RED = 1
    BLUE = 2
print(list(Color), Color["BLUE"], Color(1).name)

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    def __init__(self, n): self.n = n
    @property
    def size(self): return self.n
    @functools.cached_property
    def area_value(self): return self.n ** 2
    def area(self): return self.area_value
print(Square(4).area(), Square(3).size, Square.__mro__[1].__name__)

@functools.lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(80), fib.cache_info())

def describe(v):
    match v:
        case {"kind": "point", "at": [x, y]}: return f"point {x},{y}"
        case [first, *rest]: return f"list {first} +{len(rest)}"
        case str() | bytes(): return "text"
        case _: return "other"
print([describe(v) for v in ({"kind": "point", "at": [1, 2]}, [1, 2, 3], "a", 5)])
