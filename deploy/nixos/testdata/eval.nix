# Evaluates module.nix in a system of nothing else, for TestNixOS. `nixpkgs` is a
# directory with nixpkgs' lib, or null for lib.nix beside this.
{ nixpkgs ? null }:
let
  lib = if nixpkgs == null then import ./lib.nix else import "${nixpkgs}/lib";
  inherit (lib) mkOption types;

  fake = name: { outPath = "/nix/store/${name}"; type = "derivation"; inherit name; };
  pkgs = {
    atoll = fake "atoll";
    gitMinimal = fake "git";
    util-linux = fake "util-linux";
    qemu_kvm = fake "qemu";
    virtiofsd = fake "virtiofsd";
    stdenv.hostPlatform.isx86_64 = true;
    # What a build would make, as what it is made of.
    runCommand = name: attrs: text: fake name // { inherit (attrs) json; inherit text; };
  };

  # What module.nix sets of NixOS.
  system = {
    options = {
      environment.systemPackages = mkOption { type = types.listOf types.package; default = [ ]; };
      environment.etc = mkOption { type = types.attrsOf types.anything; default = { }; };
      assertions = mkOption { type = types.listOf types.anything; default = [ ]; };
      warnings = mkOption { type = types.listOf types.str; default = [ ]; };
      networking.firewall.allowedTCPPorts = mkOption { type = types.listOf types.ints.positive; default = [ ]; };
      networking.firewall.allowedUDPPorts = mkOption { type = types.listOf types.ints.positive; default = [ ]; };
      networking.firewall.interfaces = mkOption { type = types.attrsOf types.anything; default = { }; };
      services.avahi.enable = mkOption { type = types.bool; default = false; };
      services.avahi.publish.enable = mkOption { type = types.bool; default = false; };
      services.avahi.publish.userServices = mkOption { type = types.bool; default = false; };
      boot.extraModprobeConfig = mkOption { type = types.lines; default = ""; };
      boot.kernelPackages = mkOption { type = types.anything; default.kernel = fake "linux" // { modDirVersion = "6.12.1"; }; };
      system.boot.loader.kernelFile = mkOption { type = types.str; default = "bzImage"; };
      system.modulesTree = mkOption { type = types.anything; default = fake "kernel-modules"; };
      systemd.services = mkOption { type = types.attrsOf types.anything; default = { }; };
    };
  };

  evaluate = machine: lib.evalModules {
    modules = [ ../module.nix system machine ];
    specialArgs = { inherit pkgs; };
  };

  settings = r: if r.config.programs.atoll.enable then r.config.environment.etc."atoll/atoll.yaml".source.json else "{}";
  service = r: r.config.systemd.services.atoll or null;

  seen = r: {
    programs = settings r;
    server = if service r == null then null else (service r).environment.ATOLL_CONFIG.json;
    unit = if service r == null then null else (service r).serviceConfig;
    path = if service r == null then [ ] else map (p: p.name) (service r).path;
    after = if service r == null then [ ] else (service r).after;
    ports = r.config.networking.firewall.allowedTCPPorts;
    multicast = builtins.attrNames r.config.networking.firewall.interfaces;
    publish = r.config.services.avahi.publish.enable && r.config.services.avahi.publish.userServices;
    modprobe = r.config.boot.extraModprobeConfig;
    wrong = map (a: a.message) (builtins.filter (a: !a.assertion) r.config.assertions);
    inherit (r.config) warnings;
  };

  isOption = o: (o._type or "") == "option";
  under = path: set: builtins.concatMap (n:
    let o = set.${n}; at = path ++ [ n ]; in
    if isOption o then [ { inherit at; value = o.example or null; } ] else if builtins.isAttrs o then under at o else [ ]
  ) (builtins.attrNames set);
  nest = path: v: if path == [ ] then v else { ${builtins.head path} = nest (builtins.tail path) v; };
  plain = evaluate { programs.atoll.enable = true; services.atoll.enable = true; };
in
{
  machine = file: seen (evaluate (import file));

  # What package.nix builds, and of what. nixpkgs' own file sets are stood in for where
  # nixpkgs is not.
  package =
    let
      set = {
        toSource = s: { outPath = toString s.root; without = s.fileset; };
        difference = root: without: without;
        unions = map baseNameOf;
        maybeMissing = p: p;
      };
      asked = import ../package.nix { lib = { fileset = set; platforms.linux = [ "x86_64-linux" ]; }; buildGoModule = p: p; };
    in
    { inherit (asked) vendorHash subPackages postInstall; inherit (asked.src) without; program = asked.meta.mainProgram; };

  # Each option alone, with its example as its value.
  options = map (o: let r = evaluate { config = lib.mkMerge [ { programs.atoll.enable = true; services.atoll.enable = true; } (lib.mkIf (builtins.elemAt o.at 2 == "microvm") { programs.atoll.backend = "microvm"; }) (nest o.at o.value) ]; }; in {
    name = builtins.concatStringsSep "." o.at;
    inherit (o) value;
    programs = settings r;
    server = (service r).environment.ATOLL_CONFIG.json;
  }) (builtins.filter (o: !(builtins.elem (builtins.head (builtins.tail (builtins.tail o.at))) [ "enable" "package" "settings" "environmentFile" "openFirewall" ]))
    (under [ "programs" "atoll" ] plain.options.programs.atoll ++ under [ "services" "atoll" ] plain.options.services.atoll));
}
