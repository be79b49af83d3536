# atoll on NixOS: `programs.atoll` installs it for all users, with defaults in
# /etc/atoll/atoll.yaml; `services.atoll` runs the server. docs/nixos.md shows how to
# use it.
#
# Every option writes one key of the configuration (`atoll config --help`); keys without
# an option go into `settings`. Options that are null write nothing.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib)
    mkEnableOption
    mkIf
    mkMerge
    mkOption
    optional
    optionals
    types
    ;

  cfg = config.programs.atoll;
  srv = config.services.atoll;

  # Returns an option that may be null.
  opt =
    type: example: description:
    mkOption {
      type = types.nullOr type;
      default = null;
      inherit example description;
    };

  # Formats a memory size in MiB.
  mib = n: if n == null then null else "${toString n}m";
  seconds = n: if n == null then null else "${toString n}s";

  # Returns the first value of a list that is not null.
  first = list: lib.foldl' (a: b: if a == null then b else a) null list;

  # Removes unset values.
  said =
    attrs:
    lib.filterAttrs (_: v: v != null && v != { }) (
      lib.mapAttrs (_: v: if builtins.isAttrs v then said v else v) attrs
    );

  syncModes = types.enum [
    "manual"
    "auto-commit"
    "auto-idle"
  ];

  machines = cfg.backend == "microvm";
  kernel = config.boot.kernelPackages.kernel;

  fromOptions = said {
    driver = cfg.backend;
    env_files = cfg.defaults.envFiles;
    sync = {
      mode = first [
        cfg.sync.mode
        cfg.defaults.syncMode
      ];
      idle = seconds cfg.sync.idleSeconds;
    };
    terminal = { inherit (cfg.terminal) shell provider; };
    server.autostart = cfg.autostart;
    defaults = {
      inherit (cfg.defaults) image network allow;
      memory = mib (first ([ cfg.defaults.memory ] ++ optional machines cfg.microvm.memory));
      disk = mib cfg.defaults.disk;
      cpus = first ([ cfg.defaults.vcpus ] ++ optional machines cfg.microvm.vcpus);
      machine = {
        nested_virt = cfg.defaults.nestedVirt;
        persist = cfg.defaults.persist;
        share_proto = cfg.microvm.shareProto;
        qemu_extra_args = cfg.microvm.qemuExtraArgs;
      };
    };
    microvm = {
      inherit (cfg.microvm)
        qemu
        kernel
        modules
        accel
        type
        bridge
        templates
        ;
    };
    docker.host = cfg.docker.host;
    kubernetes = {
      context = if cfg.kubernetes.context == "" then null else cfg.kubernetes.context; # the current one
      inherit (cfg.kubernetes) namespace kubeconfig;
      storage_class = cfg.kubernetes.storageClass;
    };
    proxy = {
      listen = if cfg.proxy.enable == false then "off" else cfg.proxy.address;
      domains = if cfg.proxy.domain == null then cfg.proxy.domains else [ cfg.proxy.domain ] ++ (if cfg.proxy.domains == null then [ ] else cfg.proxy.domains);
      inherit (cfg.proxy)
        access
        behind
        caddy
        mdns
        public
        ;
      tls = { inherit (cfg.proxy.tls) cert key; };
    };
    agents = {
      inherit (cfg.agents) connector timeout turns;
    };
  };

  fromService = said {
    serve = {
      inherit (srv) listen origins rate;
      host_names = srv.hostNames;
      grace = seconds srv.graceSeconds;
      tls = { inherit (srv.tls) cert key; };
    };
  };

  # JSON is YAML. A configuration that atoll would refuse fails the build of the system,
  # not the first command on it.
  render =
    name: settings:
    pkgs.runCommand name
      {
        json = builtins.toJSON settings;
        passAsFile = [ "json" ];
      }
      ''
        cp "$jsonPath" "$out"
        HOME=$TMPDIR ${cfg.package}/bin/atoll config check "$out"
      '';

  programs = lib.recursiveUpdate fromOptions cfg.settings;
  service = lib.recursiveUpdate fromService srv.settings;
  both = lib.recursiveUpdate programs service;

  # Sandboxes of these are elsewhere, or in the server itself: it can drop all rights. The
  # others create namespaces, control groups and mounts, and their sandboxes inherit the
  # server's restrictions.
  apart = builtins.elem cfg.backend [
    "kubernetes"
    "virtual"
  ];

  loopback =
    a:
    builtins.any (p: lib.hasPrefix p a) [
      "127."
      "localhost:"
      "[::1]:"
    ];
  onlyLoopback = lib.all loopback srv.listen;

  # The proxy's address that other machines can reach, or null.
  proxyOutside =
    let
      a = programs.proxy.listen or "127.0.0.1:7080";
    in
    if a == "off" || loopback a then null else a;
  mdns = both.proxy.mdns or [ ]; # without a domain below local, atoll takes sandbox.local
  avahi = config.services.avahi.enable;

  # Ports of addresses like 0.0.0.0:8484 and [::]:8484.
  portOf = address: lib.toInt (lib.last (lib.splitString ":" address));

  secrets = attrs: attrs ? registry || attrs ? token || attrs ? contexts && lib.any (c: c ? token) (lib.attrValues attrs.contexts);
in
{
  options.programs.atoll = {
    enable = mkEnableOption "atoll, sandboxes for people and coding agents";

    package = mkOption {
      type = types.package;
      default = pkgs.atoll or (pkgs.callPackage ./package.nix { });
      defaultText = "pkgs.atoll, else what package.nix builds";
      description = "The package of atoll.";
    };

    backend = opt (types.enum [
      "microvm"
      "namespace"
      "docker"
      "kubernetes"
      "virtual"
    ]) "microvm" "What builds sandboxes (driver). Null: 'atoll up' takes the best that works here.";

    defaults = {
      image = opt types.str "debian:trixie" "Image of new sandboxes.";
      memory = opt types.ints.positive 8192 "Memory in MiB. A machine has 8192 unless it is told otherwise.";
      vcpus = opt types.ints.positive 4 "Processors. A machine has 4 unless it is told otherwise.";
      disk = opt types.ints.positive 20480 "All files together, in MiB.";
      nestedVirt = opt types.bool true "Whether machines may run inside a machine; turns nesting on in this host's KVM too.";
      persist = opt types.bool true "Whether a machine's disks are kept over a stop.";
      network = opt (types.enum [
        "none"
        "nat"
        "bridge"
        "open"
      ]) "none" "The network of sandboxes.";
      allow = opt (types.listOf types.str) [ "github.com" "*.npmjs.org:443" ] "Hosts that may be reached.";
      envFiles = opt (types.listOf types.str) [ ".env*" ] "Patterns, as .gitignore has them, of files that git ignores and that go into projects' sandboxes. A repository's own .worktreeinclude counts besides.";
      syncMode = opt syncModes "manual" "The same as sync.mode, which counts before it.";
    };

    sync = {
      mode = opt syncModes "auto-idle" "When the work of new projects comes home.";
      idleSeconds = opt (types.ints.between 30 604800) 30 "Seconds in which nothing is done inside until auto-idle syncs.";
    };

    terminal = {
      shell = opt types.str "bash" "Shell of projects' terminals.";
      provider = opt (types.enum [
        "builtin"
        "zellij"
      ]) "builtin" "Whose page 'atoll attach --web' shows: atoll's own, or that of the Zellij in the sandbox.";
    };

    autostart = opt types.bool false "Whether 'atoll up' starts a server of the user's in the background, for names of ports and terminals in the browser. Null: it does.";

    microvm = {
      memory = opt types.ints.positive 8192 "Memory of machines in MiB; defaults.memory counts before it, which is every backend's.";
      vcpus = opt types.ints.positive 4 "Processors of machines; defaults.vcpus counts before it.";
      shareProto = opt (types.enum [
        "virtiofs"
        "9p"
      ]) "virtiofs" "How directories get into a machine.";
      qemuExtraArgs = opt (types.listOf types.str) [ "-smp" "4,sockets=1" ] "More arguments of QEMU, of those that the driver allows.";
      qemu = opt types.path "/run/current-system/sw/bin/qemu-system-x86_64" "QEMU's program. With the backend microvm: that of pkgs.qemu_kvm.";
      kernel = opt types.path "/path/of/a/bzImage" "Kernel of machines. With the backend microvm: this system's.";
      modules = opt types.path "/path/of/lib/modules/6.12.0" "Directory of its modules. With the backend microvm: this system's.";
      accel = opt (types.enum [
        "kvm"
        "tcg"
      ]) "kvm" "Null: KVM where guests really run at speed, else emulation.";
      type = opt (types.enum [
        "microvm"
        "q35"
      ]) "microvm" "QEMU's type of machine.";
      bridge = opt types.str "br0" "Bridge of this host for the network mode bridge.";
      templates = opt types.bool true "Whether machines wake as copies of one that has booted.";
    };

    docker.host = opt types.str "unix:///run/docker.sock" "Docker's or Podman's engine.";

    kubernetes = {
      context = opt types.str "team" "Context of the kubeconfig.";
      namespace = opt types.str "agent-sandboxes" "Namespace of the sandboxes' pods.";
      storageClass = opt types.str "standard" "Volume of working directories: a class of the cluster, default, none or memory.";
      kubeconfig = opt types.path "/etc/rancher/k3s/k3s.yaml" "File that says where clusters are.";
    };

    proxy = {
      enable = opt types.bool false "Whether ports of sandboxes have names: 3000-web.localhost:7080. Null: they have.";
      address = opt types.str "127.0.0.1:7080" "Where.";
      domain = opt types.str "sandbox.local" "What the names end in; null: localhost, or domains.";
      domains = opt (types.listOf types.str) [ "sandbox.example.com" ] "Further endings.";
      mdns = opt (types.listOf types.str) [ "eth0" ] "Interfaces on which names below local are told by multicast DNS: through Avahi where services.avahi is enabled, else by atoll itself.";
      caddy = opt types.str "http://localhost:2019" "Admin API of a Caddy that leads the names here, such as that of services.caddy.";
      access = opt (types.enum [
        "auto"
        "links"
        "open"
      ]) "links" "Who comes in by the names. Null: with a link, unless only this machine reaches them.";
      behind = opt types.bool true "Whether a web server of yours stands before it. With caddy it does.";
      public = opt types.str "https:8443" "How browsers call it, where that is not how it listens.";
      tls = {
        cert = opt types.str "/var/lib/acme/sandbox.example.com/cert.pem" "PEM file of the names' own certificates; not a file of the store.";
        key = opt types.str "/var/lib/acme/sandbox.example.com/key.pem" "PEM file of their key; not a file of the store.";
      };
    };

    agents = {
      connector = opt types.str "anthropic" "Connector to models where none is named.";
      timeout = opt types.str "1h" "How long a turn may take.";
      turns = opt types.ints.positive 16 "Turns of an owner at once.";
    };

    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      example = {
        retention.keep = "30d";
        quota.sandboxes = 20;
      };
      description = "Further keys of the configuration; they count before the options. Everybody can read them: no secrets.";
    };
  };

  options.services.atoll = {
    enable = mkEnableOption "a server of sandboxes; its home is /var/lib/atoll";

    listen = mkOption {
      type = types.listOf (types.strMatching ".+:[0-9]+");
      default = [ ];
      example = [ "127.0.0.1:8484" ];
      description = "Addresses to listen on besides the socket /var/lib/atoll/atoll.sock. On these a token is needed.";
    };
    hostNames = opt (types.listOf types.str) [ "atoll.example.com" ] "Names that the server is called by, besides addresses and localhost.";
    origins = opt (types.listOf types.str) [ "https://console.example.com" ] "Web pages that may call it from a browser.";
    rate = opt types.ints.positive 1000 "Requests a second that one caller may make.";
    graceSeconds = opt types.ints.positive 10 "How long commands may go on when the server is to end.";
    tls = {
      cert = opt types.str "/var/lib/acme/atoll.example.com/cert.pem" "PEM file of the certificates for listen; not a file of the store.";
      key = opt types.str "/var/lib/acme/atoll.example.com/key.pem" "PEM file of their key; not a file of the store.";
    };
    openFirewall = mkOption {
      type = types.bool;
      default = false;
      description = "Whether the ports of listen, of a proxy that others reach, and of mdns are opened in the firewall.";
    };
    environmentFile = opt types.path "/run/secrets/atoll" "File of lines NAME=VALUE for what is secret: ATOLL_REGISTRY, ANTHROPIC_API_KEY.";
    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      example.retention.cron = "30 4 * * *";
      description = "Further keys of the server's configuration, before those of programs.atoll. Everybody can read them: no secrets.";
    };
  };

  config = mkMerge [
    (mkIf cfg.enable {
      environment.systemPackages = [ cfg.package ];
      environment.etc."atoll/atoll.yaml".source = render "atoll.yaml" programs;

      assertions = [
        {
          assertion = !machines || cfg.defaults.memory == null || cfg.defaults.memory >= 1024;
          message = "programs.atoll.defaults.memory = ${toString cfg.defaults.memory}: a machine needs at least 1024 MiB.";
        }
        {
          assertion = !machines || cfg.defaults.network != "bridge" || programs ? microvm && programs.microvm ? bridge;
          message = "programs.atoll.defaults.network = \"bridge\": name the bridge of this host in programs.atoll.microvm.bridge.";
        }
        {
          assertion = !machines || pkgs.stdenv.hostPlatform.isx86_64;
          message = "programs.atoll.backend = \"microvm\": machines run on x86_64 only; take \"namespace\" or \"docker\".";
        }
        {
          assertion = (cfg.proxy.tls.cert == null) == (cfg.proxy.tls.key == null);
          message = "programs.atoll.proxy.tls: cert and key belong together.";
        }
        {
          assertion = cfg.proxy.tls.key == null || !lib.hasPrefix builtins.storeDir cfg.proxy.tls.key;
          message = "programs.atoll.proxy.tls.key is in the store, which everybody can read: name a file outside of it.";
        }
        {
          assertion = !secrets cfg.settings && !secrets srv.settings;
          message = "programs.atoll.settings and services.atoll.settings are readable by everybody: registry and token don't belong there. Use services.atoll.environmentFile (ATOLL_REGISTRY), or token_file in contexts.";
        }
      ];
    })

    (mkIf (cfg.enable && machines) {
      programs.atoll.microvm = {
        qemu = lib.mkDefault "${pkgs.qemu_kvm}/bin/qemu-system-x86_64";
        kernel = lib.mkDefault "${kernel}/${config.system.boot.loader.kernelFile}";
        modules = lib.mkDefault "${config.system.modulesTree}/lib/modules/${kernel.modDirVersion}";
      };
    })

    (mkIf (cfg.enable && machines && cfg.defaults.nestedVirt == true) {
      boot.extraModprobeConfig = ''
        options kvm_intel nested=1
        options kvm_amd nested=1
      '';
    })

    (mkIf srv.enable {
      programs.atoll.enable = lib.mkDefault true;

      assertions = [
        {
          assertion = cfg.enable;
          message = "services.atoll needs programs.atoll.enable, which has its package and what builds sandboxes.";
        }
        {
          assertion = (srv.tls.cert == null) == (srv.tls.key == null);
          message = "services.atoll.tls: cert and key belong together.";
        }
        {
          assertion = srv.tls.cert == null || srv.listen != [ ];
          message = "services.atoll.tls is for services.atoll.listen, which is empty.";
        }
        {
          assertion = !srv.openFirewall || srv.listen != [ ] || proxyOutside != null || mdns != [ ];
          message = "services.atoll.openFirewall: services.atoll.listen is empty, and others don't reach programs.atoll.proxy.address, so there is no port to open.";
        }
        {
          assertion = srv.tls.key == null || !lib.hasPrefix builtins.storeDir srv.tls.key;
          message = "services.atoll.tls.key is in the store, which everybody can read: name a file outside of it.";
        }
      ];
      warnings = optional (
        srv.tls.cert == null && !onlyLoopback
      ) "services.atoll.listen: without services.atoll.tls, tokens can be read on the way.";

      networking.firewall.allowedTCPPorts = mkIf srv.openFirewall (map portOf (srv.listen ++ optional (proxyOutside != null) proxyOutside));
      # The port of multicast DNS; Avahi's module opens it for Avahi.
      networking.firewall.interfaces = mkIf (srv.openFirewall && !avahi) (lib.genAttrs mdns (_: { allowedUDPPorts = [ 5353 ]; }));
      # Without these two options Avahi refuses names of other programs.
      services.avahi.publish = mkIf (avahi && mdns != [ ]) {
        enable = lib.mkDefault true;
        userServices = lib.mkDefault true;
      };

      systemd.services.atoll = {
        description = "Server of sandboxes";
        documentation = [ "https://github.com/atoll-sandbox/atoll" ];
        wantedBy = [ "multi-user.target" ];
        wants = [ "network-online.target" ];
        after = [
          "network-online.target"
        ]
        ++ optional (cfg.backend == "docker") "docker.service"
        ++ optional (avahi && mdns != [ ]) "avahi-daemon.service"
        ++ optional (both ? proxy && both.proxy ? caddy) "caddy.service";
        path =
          [
            pkgs.gitMinimal
            pkgs.util-linux
          ]
          ++ optionals machines [
            pkgs.qemu_kvm
            pkgs.virtiofsd
          ];
        environment = {
          ATOLL_CONFIG = render "atoll-serve.yaml" both;
          ATOLL_HOME = "/var/lib/atoll";
        };
        serviceConfig = mkMerge [
          {
            Type = "notify";
            ExecStart = "${cfg.package}/bin/atoll serve";
            EnvironmentFile = mkIf (srv.environmentFile != null) [ srv.environmentFile ];
            Restart = "on-failure";
            RestartSec = 2;
            TimeoutStopSec = (if srv.graceSeconds == null then 10 else srv.graceSeconds) + 20;
            StateDirectory = "atoll";
            StateDirectoryMode = "0700";
            UMask = "0077";
            # Sandboxes outlive the server; the next server finds them.
            KillMode = "process";
            Delegate = true;

            NoNewPrivileges = true;
            PrivateTmp = true;
            ProtectHome = true;
            ProtectSystem = "strict";
            ProtectKernelModules = true;
            LimitNOFILE = 65536;
            TasksMax = "infinity";
          }
          (mkIf apart {
            DynamicUser = true;
            CapabilityBoundingSet = "";
            LockPersonality = true;
            MemoryDenyWriteExecute = true;
            PrivateDevices = true;
            PrivateUsers = true;
            ProcSubset = "pid";
            ProtectClock = true;
            ProtectControlGroups = true;
            ProtectHostname = true;
            ProtectKernelLogs = true;
            ProtectKernelTunables = true;
            ProtectProc = "invisible";
            RestrictAddressFamilies = [
              "AF_UNIX"
              "AF_INET"
              "AF_INET6"
            ];
            RestrictNamespaces = true;
            RestrictRealtime = true;
            RestrictSUIDSGID = true;
            SystemCallArchitectures = "native";
            SystemCallFilter = [
              "@system-service"
              "~@privileged"
            ];
          })
          (mkIf (!apart) {
            # The unit keeps rights that creating sandboxes needs, and all of /proc and
            # /sys: where a part of them is hidden or read-only, a sandbox can't mount
            # its own. It sets no system call filter, which sandboxes would inherit;
            # they have their own.
            CapabilityBoundingSet = "~CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_BLOCK_SUSPEND CAP_LEASE CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_SYSLOG CAP_SYS_BOOT CAP_SYS_MODULE CAP_SYS_PACCT CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_WAKE_ALARM";
            DevicePolicy = "closed";
            DeviceAllow = [
              "/dev/kvm rw"
              "/dev/vhost-net rw"
              "/dev/net/tun rw"
              "/dev/fuse rw"
              "/dev/loop-control rw"
              "block-loop rwm"
            ];
          })
        ];
      };
    })
  ];
}
