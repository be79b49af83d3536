# atoll, built from this source: pkgs.callPackage ./package.nix { }. It needs a
# nixpkgs whose Go is 1.26 or later.
{ lib, buildGoModule }:
buildGoModule {
  pname = "atoll";
  version = "0-unstable";

  src = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.difference ../.. (
      lib.fileset.unions (
        map lib.fileset.maybeMissing [
          ../../.git
          ../../.cache
          ../../bin
        ]
      )
    );
  };

  # The hash of the output of 'go mod vendor'; TestNixOSPackage in cmd/atoll prints the new
  # one when that has changed.
  vendorHash = "sha256-tFTwzt/JamU7ncKS3OKceLKBbyrUY4dVS5XuIEsX+/A=";

  env.CGO_ENABLED = 0;
  ldflags = [
    "-s"
    "-w"
  ];
  subPackages = [
    "cmd/atoll"
    "cmd/atoll-full"
    "cmd/atoll-guest"
    "cmd/atoll-egress"
    "cmd/atoll-sftp"
    "cmd/atoll-tool"
    "cmd/atoll-worker"
    "cmd/atoll-python"
  ];

  # The helpers are appended to atoll, as by 'make build'; stripping the program would
  # remove them. atoll-full stays beside atoll, which finds it there: nothing is unpacked.
  postInstall = ''
    GOOS= GOARCH= go run ./internal/helper/pack "$out/bin/atoll" "$out"/bin/atoll-{guest,egress,sftp,tool,worker,python}
    rm "$out"/bin/atoll-{guest,egress,sftp,tool,worker,python}
  '';
  dontStrip = true;

  doCheck = false; # the tests create sandboxes, which Nix' build sandbox does not allow

  meta = {
    description = "Sandboxes for people and coding agents";
    mainProgram = "atoll";
    platforms = lib.platforms.linux;
  };
}
