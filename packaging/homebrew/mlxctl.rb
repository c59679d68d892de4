# Homebrew formula. MLX is installed as a wheel from PyPI, since its Metal kernels cannot be built in
# Homebrew's sandbox; so mlxctl lives in a virtual environment of its own. For a tap:
#   brew tap OWNER/mlxctl && brew install mlxctl && brew services start mlxctl
class Mlxctl < Formula
  desc "Run MLX language models behind OpenAI- and Anthropic-compatible APIs"
  homepage "https://pypi.org/project/mlxctl/"
  url "https://files.pythonhosted.org/packages/source/m/mlxctl/mlxctl-0.1.0.tar.gz"
  # `python -m tools.homebrew_formula dist/*.tar.gz` fills in name and digest.
  sha256 ""
  license "Apache-2.0"

  depends_on arch: :arm64
  depends_on macos: :sonoma
  depends_on "python@3.13"

  # Extension modules of wheels have no room in their headers for the paths that brew would write there.
  preserve_rpath

  def install
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    system libexec/"bin/pip", "install", "--no-cache-dir", "-c", "constraints.txt", "."
    bin.install_symlink libexec/"bin/mlxctl"
    generate_completions_from_executable(bin/"mlxctl", "completion")
  end

  service do
    run [opt_bin/"mlxctl", "serve"]
    keep_alive successful_exit: false
    log_path var/"log/mlxctl.log"
    error_log_path var/"log/mlxctl.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mlxctl --version")
    system bin/"mlxctl", "doctor"
  end
end
