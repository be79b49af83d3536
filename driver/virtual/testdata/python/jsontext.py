import json
data = {"b": [1, 2.5, None, True], "a": {"text": "héllo \u2603", "empty": {}}}
print(json.dumps(data, sort_keys=True))
print(json.dumps(data, indent=2, ensure_ascii=False))
print(json.loads('{"x": [1e3, -0.5, "\\u00e9"], "y": false}'))
try:
    json.loads('{"x": }')
except json.JSONDecodeError as e:
    print(e, e.lineno, e.colno)
