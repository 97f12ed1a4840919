"""Tests the release files: each is installed into a clean environment and runs a skill there.

DIST is the directory with the files, ENGINE the socket of a Docker engine. They are set by scripts/test-dist.sh.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ["DIST"])
ENGINE = os.environ.get("ENGINE")
SKILL = ROOT / "examples" / "skills" / "word-counter"
RUN = ["run", SKILL, "--input", '{"text": "one two two"}', "-o", "json"]
# Packages and commands of this machine must not be used instead of the installed ones.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def only_file(pattern):
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


class Release(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)

    def run_clean(self, *command, path=None, check=True):
        """Runs a command with no environment but a PATH and an empty home directory."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": f"{path}:{SYSTEM_PATH}" if path else SYSTEM_PATH, "HOME": str(home)}
        ran = subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)
        if check:
            self.assertEqual(ran.returncode, 0, f"{command}\n{ran.stdout}\n{ran.stderr}")
        return ran

    def assert_runs_skill(self, *program, path=None):
        result = json.loads(self.run_clean(*program, *RUN, path=path).stdout)
        self.assertEqual((result["status"], result["output"]["words"]), ("success", 3))
        self.assertEqual(result["isolation"]["backend"], "native")

    def unpack_tarball(self):
        self.run_clean("tar", "xf", only_file("skillbox-*-linux-*.tar.gz"))
        return next(self.work.glob("skillbox-*"))

    def install_wheel(self, *wheels):
        self.run_clean(sys.executable, "-m", "venv", "venv")
        pip = [self.work / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
        self.run_clean(*pip, *wheels)
        return self.work / "venv/bin"

    def npm(self, *arguments, check=True):
        # npm's own settings stay those of this machine; only the cache is new.
        environment = {**os.environ, "npm_config_cache": str(self.work / "cache")}
        options = ["--offline", "--no-audit", "--no-fund", "--loglevel=error"]
        return subprocess.run(["npm", *arguments, *options], cwd=self.work, env=environment, check=check)

    def install_npm(self, *packages):
        (self.work / "package.json").write_text('{"private": true, "type": "module"}')
        self.npm("install", *packages)
        return self.work / "node_modules" / ".bin" / "skillbox"


class TarballTest(Release):
    def test_runs_a_skill(self):
        self.assert_runs_skill(self.unpack_tarball() / "skillbox")

    def test_holds_completions_and_the_licence(self):
        root = self.unpack_tarball()
        names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        completions = {"completions/skillbox.bash", "completions/_skillbox", "completions/skillbox.fish"}
        self.assertEqual(names, {"skillbox", "README.md", "CHANGELOG.md", "LICENSE"} | completions)
        self.run_clean("bash", "-n", root / "completions/skillbox.bash")


class WheelTest(Release):
    def test_puts_the_program_on_the_path_and_runs_a_skill(self):
        binaries = self.install_wheel(only_file("*-manylinux_*.whl"))
        self.assert_runs_skill("skillbox", path=binaries)

    def test_library_runs_a_skill_without_a_server(self):
        binaries = self.install_wheel(only_file("*-manylinux_*.whl"))
        code = (
            "from skillbox.local import Sandbox, find_program\n"
            f"result = Sandbox({str(SKILL)!r}, timeout=30).run(input={{'text': 'one two two'}})\n"
            "print(find_program(), result.ok, result.output['words'])"
        )
        printed = self.run_clean(binaries / "python", "-I", "-c", code).stdout
        self.assertEqual(printed, f"{binaries}/skillbox True 3\n")

    def test_uninstalling_removes_the_program(self):
        binaries = self.install_wheel(only_file("*-manylinux_*.whl"))
        self.run_clean(binaries / "pip", "uninstall", "--quiet", "--yes", "skillbox")
        self.assertFalse((binaries / "skillbox").exists())

    def test_record_lists_every_file(self):
        with zipfile.ZipFile(only_file("*-manylinux_*.whl")) as wheel:
            record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
            listed = [line.split(",")[0] for line in wheel.read(record).decode().splitlines()]
            self.assertEqual(sorted(listed), sorted(wheel.namelist()))

    def test_pure_wheel_names_the_missing_program(self):
        binaries = self.install_wheel(only_file("*-none-any.whl"))
        ran = self.run_clean(
            binaries / "python", "-I", "-c", "from skillbox.local import find_program; find_program()", check=False
        )
        self.assertIn("The program skillbox was not found.", ran.stderr)


class NpmTest(Release):
    def packages(self):
        # Without the platform's package, whose name begins alike.
        sdk = [path for path in DIST.glob("skillbox-*.tgz") if path.name.count("-") == 1]
        self.assertEqual(len(sdk), 1, sdk)
        return sdk[0], only_file("skillbox-linux-*.tgz")

    def test_puts_the_command_into_bin_and_runs_a_skill(self):
        self.assert_runs_skill(self.install_npm(*self.packages()))

    def test_the_package_of_the_program_is_enough(self):
        self.assert_runs_skill(self.install_npm(self.packages()[1]))

    def test_command_passes_the_exit_code_on(self):
        command = self.install_npm(*self.packages())
        self.assertEqual(self.run_clean(command, "run", "no-such-directory/", check=False).returncode, 2)

    def test_command_forwards_sigterm_to_the_program(self):
        command = self.install_npm(*self.packages())
        environment = {"PATH": SYSTEM_PATH, "HOME": str(self.work), "SKILLBOX_API_PORT": "0"}
        server = subprocess.Popen(
            [command, "serve"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        # A server that does not start or stop must fail the test, not block it.
        watchdog = threading.Timer(60, server.kill)
        watchdog.start()
        with server:
            for line in server.stdout:
                if " serves on " in line:
                    break
            server.terminate()
            # The output ends only when no process has it open, so the program has exited too.
            rest = server.stdout.read()
        watchdog.cancel()
        self.assertEqual(server.returncode, 0, rest)
        self.assertIn("stopped", rest)

    def test_library_is_installed_with_the_command(self):
        self.install_npm(*self.packages())
        module = "import { Client } from 'skillbox'; console.log(typeof Client)"
        printed = self.run_clean("node", "--input-type=module", "--eval", module, path=os.environ["NODE_DIRECTORY"])
        self.assertEqual(printed.stdout, "function\n")


class ChecksumTest(Release):
    def test_checksums_cover_every_package(self):
        listed = {line.split("  ")[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
        signatures = {path.name for path in DIST.glob("*.minisig")}
        self.assertEqual({path.name for path in DIST.iterdir()} - signatures, listed | {"SHA256SUMS", "skillbox.pub"})
        checked = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=DIST, check=False)
        self.assertEqual(checked.returncode, 0)

    def test_every_file_is_signed_for_minisign_and_for_skillbox(self):
        program = self.unpack_tarball() / "skillbox"
        key = DIST / "skillbox.pub"
        for name in [*(line.split("  ")[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()), "SHA256SUMS"]:
            with self.subTest(name):
                self.run_clean("minisign", "-Vqm", DIST / name, "-p", key)
                self.run_clean(program, "skill", "verify", "--file", DIST / name, "--key", key)

    def test_a_changed_file_is_noticed(self):
        program = self.unpack_tarball() / "skillbox"
        changed = self.work / "SHA256SUMS"
        changed.write_text((DIST / "SHA256SUMS").read_text().replace("0", "1", 1))
        (self.work / "SHA256SUMS.minisig").write_bytes((DIST / "SHA256SUMS.minisig").read_bytes())
        ran = self.run_clean(program, "skill", "verify", "--file", changed, "--key", DIST / "skillbox.pub", check=False)
        self.assertNotEqual(ran.returncode, 0)

    def test_sbom_names_the_program(self):
        sbom = json.loads(only_file("*.cdx.json").read_text())
        self.assertEqual(sbom["bomFormat"], "CycloneDX")
        self.assertGreater(len(sbom["components"]), 100)


class ImageTest(Release):
    def docker(self, *arguments, check=True):
        ran = subprocess.run(
            ["docker", "--host", ENGINE, *arguments], capture_output=True, text=True, check=False
        )
        if check:
            self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_runs_a_skill_on_the_engine_that_runs_the_image(self):
        if not ENGINE:
            self.skipTest("NEEDS ENGINE: that the container image runs a skill")
        image = self.docker("load", "--quiet", "--input", only_file("*-image.tar.gz")).split(": ")[1].strip()
        self.addCleanup(self.docker, "image", "rm", "--force", image)
        images = {runtime: f"skillbox/{runtime}:test" for runtime in ("python", "node", "bash")}
        settings = {f"SKILLBOX_IMAGE_{runtime.upper()}": name for runtime, name in images.items()}
        settings["SKILLBOX_IMAGE_ALLOWLIST"] = ",".join(images.values())
        settings["SKILLBOX_DOCKER_HOST"] = "unix:///engine.sock"
        mounts = [f"{ENGINE.removeprefix('unix://')}:/engine.sock", f"{SKILL}:/skill:ro"]
        options = [option for mount in mounts for option in ("--volume", mount)]
        options += [option for setting in settings.items() for option in ("--env", "=".join(setting))]
        # The socket of the engine belongs to root.
        ran = self.docker(
            "run", "--rm", "--network=none", "--read-only", "--user=0", *options, image,
            "run", "/skill", "--sandbox", "docker", "--input", '{"text": "one two two"}', "-o", "json",
        )  # fmt: skip
        result = json.loads(ran)
        self.assertEqual((result["status"], result["output"]["words"]), ("success", 3))
        self.assertEqual(result["isolation"]["backend"], "docker")

    def test_configuration_is_that_of_the_dockerfile(self):
        if not ENGINE:
            self.skipTest("NEEDS ENGINE: that the container image has its configuration")
        image = self.docker("load", "--quiet", "--input", only_file("*-image.tar.gz")).split(": ")[1].strip()
        self.addCleanup(self.docker, "image", "rm", "--force", image)
        config = json.loads(self.docker("image", "inspect", image))[0]["Config"]
        self.assertEqual((config["User"], config["Entrypoint"], config["Cmd"]), ("65532:65532", ["skillbox"], ["serve"]))
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "skillbox", "health"])
        self.assertIn("SKILLBOX_DATA_DIR=/var/lib/skillbox", config["Env"])
        self.assertEqual(self.docker("run", "--rm", "--network=none", image, "version").split()[0], "skillbox")


if __name__ == "__main__":
    unittest.main()
