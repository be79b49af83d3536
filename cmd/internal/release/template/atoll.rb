class Atoll < Formula
  desc "Sandboxes for AI agents"
  homepage "https://github.com/atoll-sandbox/atoll"
  version "{{.Number}}"
  license "Apache-2.0"
{{$url := .URL}}{{range .Archives}}{{if ne .OS "windows"}}
  {{if eq .OS "darwin"}}on_macos{{else}}on_linux{{end}} do
    {{if eq .Arch "arm64"}}on_arm{{else}}on_intel{{end}} do
      url "{{$url}}/{{.Name}}"
      sha256 "{{.Digest}}"
    end
  end
{{end}}{{end}}
  def install
    bin.install "atoll"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/atoll.bash" => "atoll"
    zsh_completion.install "completions/_atoll"
    fish_completion.install "completions/atoll.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/atoll version")
    assert_equal "HI\n", shell_output("#{bin}/atoll run -- sh -c 'echo hi | tr a-z A-Z'")
  end
end
