# As much of nixpkgs' lib as module.nix uses, written for its test, which runs where
# nixpkgs is not: options with types, mkIf, mkMerge, mkDefault. It is stricter
# than nixpkgs in one thing: an option that nobody declared is named with its place.
let
  inherit (builtins)
    all
    any
    attrNames
    attrValues
    concatLists
    concatMap
    elem
    elemAt
    filter
    foldl'
    fromJSON
    hasAttr
    head
    intersectAttrs
    isAttrs
    isBool
    isInt
    isList
    isPath
    isString
    length
    listToAttrs
    mapAttrs
    match
    removeAttrs
    split
    stringLength
    substring
    toJSON
    ;

  dotted = builtins.concatStringsSep ".";
  isOption = o: isAttrs o && (o._type or "") == "option";
  type = name: check: {
    inherit name check;
    merge = place: defs: if length defs == 1 then head defs else throw "${dotted place} is defined ${toString (length defs)} times";
  };
  types = rec {
    str = type "a string" isString;
    bool = type "true or false" isBool;
    path = type "an absolute path" (v: isPath v || isString v && hasPrefix "/" v || isAttrs v && v ? outPath);
    package = type "a package" (v: isAttrs v && v ? outPath);
    ints.positive = type "a whole number above 0" (v: isInt v && v > 0);
    ints.between = low: high: type "a whole number from ${toString low} to ${toString high}" (v: isInt v && v >= low && v <= high);
    enum = list: type "one of ${toJSON list}" (v: elem v list);
    strMatching = pattern: type "a string matching ${pattern}" (v: isString v && match pattern v != null);
    nullOr = t: t // {
      name = "null or ${t.name}";
      check = v: v == null || t.check v;
    };
    listOf = t: type "a list of ${t.name}" (v: isList v && all t.check v) // { merge = _: concatLists; };
    anything = type "anything" (_: true) // {
      merge = place: defs: if all isAttrs defs then foldl' recursiveUpdate { } defs else (type "" null).merge place defs;
    };
    attrsOf = t: type "attributes of ${t.name}" isAttrs // {
      merge = place: defs: foldl' recursiveUpdate { } (map (unwrapped place) defs);
    };
    lines = type "text" isString // { merge = _: builtins.concatStringsSep "\n"; };
  };

  # Definitions in attributes, without mkIf and mkDefault in them.
  unwrapped =
    place: v:
    if !isAttrs v || v ? outPath then
      v
    else if v ? _type then
      let
        all = map (d: unwrapped place d.value) (definitions v);
      in
      if all == [ ] then null else foldl' (a: b: if isAttrs a && isAttrs b then recursiveUpdate a b else b) (head all) all
    else
      filterAttrs (_: x: x != null) (mapAttrs (_: unwrapped place) v);

  hasPrefix = p: s: substring 0 (stringLength p) s == p;
  hasSuffix = p: s: stringLength s >= stringLength p && substring (stringLength s - stringLength p) (-1) s == p;
  filterAttrs = keep: s: removeAttrs s (filter (n: !keep n s.${n}) (attrNames s));
  recursiveUpdate =
    a: b:
    a
    // mapAttrs (n: v: if isAttrs v && a ? ${n} && isAttrs a.${n} && !(v ? outPath) then recursiveUpdate a.${n} v else v) b;

  # The values that a definition stands for, each with whether it is a default.
  definitions =
    d:
    if !(isAttrs d && d ? _type) then
      [ { value = d; weak = false; } ]
    else if d._type == "if" then
      if d.condition then definitions d.content else [ ]
    else if d._type == "merge" then
      concatMap definitions d.contents
    else if d._type == "default" then
      map (x: x // { weak = true; }) (definitions d.content)
    else
      throw "a definition is of the kind ${d._type}";

  # The sets that a definition stands for. Their conditions go down to the options
  # in them: what is not set is not asked for.
  spread =
    d:
    if !(d ? _type) then
      [ d ]
    else if d._type == "merge" then
      concatMap spread d.contents
    else
      map (mapAttrs (_: content: d // { inherit content; })) (spread d.content);

  value =
    place: o: defs:
    let
      said = concatMap definitions defs;
      strong = filter (d: !d.weak) said;
      values = map (d: d.value) (if strong == [ ] then said else strong);
      v = o.type.merge place values;
    in
    if values == [ ] then
      if o ? default then o.default else throw "The option `${dotted place}' is used but not defined."
    else if all o.type.check values && o.type.check v then
      v
    else
      throw "A definition for option `${dotted place}' is not of type `${o.type.name}': ${toJSON values}";

  evaluate =
    place: options: defs:
    let
      sets = concatMap spread defs;
      unknown = filter (n: !(hasAttr n options)) (concatMap attrNames sets);
    in
    if unknown != [ ] then
      throw "The option `${dotted (place ++ [ (head unknown) ])}' does not exist."
    else
      mapAttrs (n: o: (if isOption o then value else evaluate) (place ++ [ n ]) o (map (s: s.${n}) (filter (hasAttr n) sets))) options;
in
{
  inherit
    all
    any
    attrValues
    filterAttrs
    foldl'
    hasPrefix
    hasSuffix
    mapAttrs
    recursiveUpdate
    types
    ;
  mkOption = o: { _type = "option"; } // o;
  mkEnableOption = what: {
    _type = "option";
    type = types.bool;
    default = false;
    description = "Whether to enable ${what}.";
  };
  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkDefault = content: {
    _type = "default";
    inherit content;
  };
  genAttrs = names: f: listToAttrs (map (name: { inherit name; value = f name; }) names);
  optional = c: v: if c then [ v ] else [ ];
  optionals = c: v: if c then v else [ ];
  last = l: elemAt l (length l - 1);
  splitString = by: s: filter isString (split by s);
  toInt = fromJSON;

  evalModules =
    { modules, specialArgs ? { } }:
    let
      lib = import ./lib.nix;
      all = map (m: if builtins.isFunction m then m (args // intersectAttrs (builtins.functionArgs m) args) else m) (map (m: if isPath m then import m else m) modules);
      args = specialArgs // { inherit lib config; };
      options = foldl' recursiveUpdate { } (map (m: m.options or { }) all);
      defs = map (m: if m ? config || m ? options then m.config or { } else m) all;
      config = evaluate [ ] options defs;
    in
    {
      inherit options config;
    };
}
